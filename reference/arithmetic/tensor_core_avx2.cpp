// The fast form on 256-bit vectors. Compiled with -mavx2.
#include <immintrin.h>

#include <cstdint>

#include "reference/arithmetic/tensor_core_kernel.h"

namespace mlacheck::detail {
namespace {

constexpr int kWidth = 8;

template <class I16>
inline __attribute__((always_inline)) I16 max16(I16 x, I16 y) {
  return reinterpret_cast<I16>(
      _mm256_max_epi16(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(y)));
}

template <class U32>
inline __attribute__((always_inline)) bool any(U32 x) {
  return _mm256_testz_si256(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(x)) == 0;
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_low(I32 x) {
  return _mm256_cvtepi32_pd(_mm256_castsi256_si128(reinterpret_cast<__m256i>(x)));
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_high(I32 x) {
  return _mm256_cvtepi32_pd(_mm256_extracti128_si256(reinterpret_cast<__m256i>(x), 1));
}

template <class F32, class F64>
inline __attribute__((always_inline)) F32 narrow(F64 low, F64 high) {
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

}  // namespace
}  // namespace mlacheck::detail

#include "reference/arithmetic/tensor_core_kernel.inc"

namespace mlacheck::detail {
const TensorCoreKernel kAvx2Kernel{unpack, chain};
}  // namespace mlacheck::detail
