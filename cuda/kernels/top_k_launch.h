#pragma once

#include "cuda/device/launch.h"
#include "cuda/kernels/top_k_plan.h"

namespace mlacheck::kernels {

// Starts the kernels of the plan. Instantiated for TopKRules (instances/).
template <class Rules>
void launch_top_k(device::Stream& stream, const TopKPlan& plan, const TopKArguments& arguments);

}  // namespace mlacheck::kernels
