#pragma once

#include <cstdint>

#include "cuda/device/warp.h"

namespace mlacheck::device {

// The sum of a lane's value and those of all lanes before it; a collective (device/warp.h).
MLACHECK_DEVICE_FN std::uint32_t sum_to_lane(std::uint32_t own MLACHECK_SITE);
// The largest value of all lanes; a collective.
MLACHECK_DEVICE_FN std::uint32_t maximum_of_lanes(std::uint32_t own MLACHECK_SITE);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/scan.h"
#else
#include "cuda/device/emulated/scan.h"
#endif
