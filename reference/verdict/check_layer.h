#pragma once

#include <vector>

#include "reference/layer/attention_layer.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/sparse_attention.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Judges a recorded layer run stage by stage: each stage against the fp64 answer from that stage's own recorded
// inputs, so that no error of an earlier stage hides or excuses one of a later. One finding a stage, named as in
// LayerStages: "layer.q_a", ..., "layer.output". The RoPE tables are taken as the numerics define them.
std::vector<Finding> check_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                                 const LayerWeights& weights, const LayerInput& input,
                                 const LayerStages& stages);

// The operators' problems of a run, as check_layer judges them and a kernel can be given them. Each points into
// the object that it stands in and into the stages and the input that it was made from.
struct LayerAttentionProblem {
  LayerAttentionProblem(const ModelSizes& sizes, const LayerNumerics& numerics,
                        const LayerInput& input, const LayerStages& stages);
  LayerAttentionProblem(const LayerAttentionProblem&) = delete;
  LayerAttentionProblem& operator=(const LayerAttentionProblem&) = delete;

  Matrix q;   // [T, H * (c + r)]
  Matrix kv;  // [S, c + r], as storage gives it back
  SparseAttentionProblem problem;
};

}  // namespace mlacheck
