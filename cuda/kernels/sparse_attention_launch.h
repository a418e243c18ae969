#pragma once

#include "cuda/device/launch.h"
#include "cuda/device/matrix.h"
#include "cuda/kernels/sparse_attention_plan.h"

namespace mlacheck::kernels {

// Starts the kernel of the plan, and combine after it where the plan splits. One instantiation a
// kernel and element type (instances/), `GroupHeads` that of the plan.
template <device::Element E, int GroupHeads>
void launch_sparse_attention(device::Stream& stream, const SparseAttentionPlan& plan,
                             const SparseAttentionArguments& arguments);

}  // namespace mlacheck::kernels
