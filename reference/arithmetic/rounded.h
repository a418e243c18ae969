#pragma once

#include <cmath>

#include "reference/formats/host_device.h"

namespace mlacheck {

// fp32 operations rounded to nearest even, once each. nvcc contracts a * b + c unless told
// otherwise, so the functions that kernels share with the reference use these throughout.
#if defined(__CUDA_ARCH__)
__device__ inline float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float add_rn(float a, float b) { return __fadd_rn(a, b); }
#else
MLACHECK_HOST_DEVICE inline float fma_rn(float a, float b, float c) { return std::fma(a, b, c); }
MLACHECK_HOST_DEVICE inline float mul_rn(float a, float b) { return a * b; }
MLACHECK_HOST_DEVICE inline float add_rn(float a, float b) { return a + b; }
#endif

}  // namespace mlacheck
