#pragma once

#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "reference/layer/attention_layer.h"
#include "tools/report.h"

namespace mlacheck {

// The library's kernels on a layer's own operands:
//
//   sparse_attention           on the layer's indices, so that no ambiguity of the selection
//                              reaches the verdict
//   index_scores, index_select on its index queries, keys and weights, where it has an indexer
//   chain                      sparse_attention on what the library's own index_select has selected
//
// judged like any case. Values are bf16 where bf16 holds them; else they are given as they are, in
// fp32, and to a library that refuses that, and to the indexer's kernels, rounded to bf16.
std::vector<CheckResult> check_layer_kernels(const ModelSizes& sizes, const LayerNumerics& numerics,
                                             const LayerInput& input, const LayerStages& stages,
                                             const KernelLibrary& library,
                                             const std::string& repro);

}  // namespace mlacheck
