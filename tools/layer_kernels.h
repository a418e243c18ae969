#pragma once

#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "reference/layer/attention_layer.h"
#include "tools/report.h"

namespace mlacheck {

// The library's sparse_attention kernels on a layer's own queries, KV rows and indices: judged like
// any case, so that no ambiguity of the selection reaches the verdict. In bf16 where bf16 holds the
// values.
std::vector<CheckResult> check_layer_kernels(const ModelSizes& sizes, const LayerNumerics& numerics,
                                             const LayerInput& input, const LayerStages& stages,
                                             const KernelLibrary& library,
                                             const std::string& repro);

}  // namespace mlacheck
