#pragma once

#include <cstdint>

#include "cuda/device/platform.h"

namespace mlacheck::device {

// The value. On a GPU it is in a register of its own from here on, whatever it was moved from:
// ptxas would else move words that one load brought into the order that a matrix step takes before
// each step again.
MLACHECK_DEVICE_FN std::uint32_t own_register(std::uint32_t value);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/register.h"
#else
#include "cuda/device/emulated/register.h"
#endif
