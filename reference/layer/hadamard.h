#pragma once

#include <cstdint>
#include <span>

#include "reference/formats/dtype.h"

namespace mlacheck {

inline constexpr std::int64_t kHadamardDim = 128;

// x <- H x * 128^-0.5 in place, H[i, j] = (-1)^popcount(i & j) (Sylvester): orthonormal, its own
// inverse.
//
// fp32: seven butterfly stages of stride 1, 2, 4, ..., 64, then one product with fp32(128^-0.5),
// then one rounding to dtype.
void hadamard_128(std::span<float, kHadamardDim> x, DType dtype);

}  // namespace mlacheck
