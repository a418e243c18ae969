#pragma once

#include <vector>

#include "reference/layer/attention_layer.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Judges a recorded layer run stage by stage: each stage against the fp64 answer from that stage's
// own recorded inputs, so that no error of an earlier stage hides or excuses one of a later. One
// finding a stage, named as in LayerStages: "layer.q_a", ..., "layer.output". RoPE tables, and what
// prepares index queries and keys for their scores, are taken as the numerics define them.
std::vector<Finding> check_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                                 const LayerWeights& weights, const LayerInput& input,
                                 const LayerStages& stages);

}  // namespace mlacheck
