#pragma once

#include "cuda/device/platform.h"

namespace mlacheck::device {

// Collectives: all 32 lanes of the warp call them together, at the same place.

// The lanes meet, and see what each of them wrote to memory before.
MLACHECK_DEVICE_FN void sync_warp(MLACHECK_SITE_ONLY);
// T of 4 bytes.
template <class T>
MLACHECK_DEVICE_FN T shuffle(T value, unsigned from_lane MLACHECK_SITE);
template <class T>
MLACHECK_DEVICE_FN T shuffle_xor(T value, unsigned lane_mask MLACHECK_SITE);
// Bit i: lane i's condition.
MLACHECK_DEVICE_FN unsigned ballot(bool condition MLACHECK_SITE);
MLACHECK_DEVICE_FN bool any(bool condition MLACHECK_SITE);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/warp.h"
#else
#include "cuda/device/emulated/warp.h"
#endif
