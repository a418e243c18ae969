#pragma once

#include "cuda/device/launch.h"
#include "cuda/device/matrix.h"
#include "cuda/kernels/index_scores_plan.h"

namespace mlacheck::kernels {

// Starts the kernel. One instantiation an element type (instances/).
template <device::Element E>
void launch_index_scores(device::Stream& stream, const IndexScoresPlan& plan,
                         const IndexScoresArguments& arguments);

}  // namespace mlacheck::kernels
