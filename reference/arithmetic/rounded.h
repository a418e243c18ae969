#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/formats/host_device.h"

namespace mlacheck {

// fp32 operations, each rounded once to nearest even. nvcc contracts a * b + c unless told
// otherwise, so the functions that kernels share with the reference are written in these alone.
MLACHECK_HOST_DEVICE inline float add_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

MLACHECK_HOST_DEVICE inline float mul_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

MLACHECK_HOST_DEVICE inline float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

// The least float that is not below x > 0.
constexpr float rounded_up(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) >= x
             ? nearest
             : std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) + 1);
}

}  // namespace mlacheck
