#pragma once

#include <cstdint>

#include "cuda/device/platform.h"

namespace mlacheck::device {

// Of words, by an instruction each. Not those of <bit>: nvcc 13.0 makes 32 of std::countr_zero,
// whatever the word.
MLACHECK_DEVICE_FN int count_ones(std::uint32_t word);
MLACHECK_DEVICE_FN int lowest_one(std::uint32_t word);  // its place; word != 0
MLACHECK_DEVICE_FN int bit_width(
    std::uint32_t word);  // one more than the highest one's place; 0 of 0

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/bits.h"
#else
#include "cuda/device/emulated/bits.h"
#endif
