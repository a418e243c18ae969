#pragma once

namespace mlacheck::device {

__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
__device__ __forceinline__ float divide(float a, float b) { return __fdiv_rn(a, b); }

__device__ __forceinline__ float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ std::uint32_t Divisor::quotient(std::uint32_t n) const {
  return (__umulhi(n, factor_) + n) >> shift_;
}

}  // namespace mlacheck::device
