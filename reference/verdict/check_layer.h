#pragma once

#include <vector>

#include "reference/layer/attention_layer.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Judges a recorded layer run stage by stage: each stage against the fp64 answer from that stage's
// own recorded inputs, so that no error of an earlier stage hides or excuses one of a later. One
// finding a stage, in order of computation and named as in LayerStages: "layer.q_a", ...,
// "layer.output"; so the first that fails is where the run went wrong. A shared layer must keep the
// indices that it was given. RoPE tables, and what prepares index queries and keys for their
// scores, are taken as the numerics define them. Throws std::invalid_argument naming a stage of
// another size.
std::vector<Finding> check_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                                 const LayerWeights& weights, const LayerInput& input,
                                 const LayerStages& stages);

}  // namespace mlacheck
