// The fast form on 512-bit vectors. Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl.
#if defined(__GNUC__) && \
    !defined(__clang__)  // the intrinsics' own undefined operands: GCC bug 105593
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "reference/arithmetic/tensor_core_kernel.h"

namespace mlacheck::detail {
namespace {

constexpr int kWidth = 16;

template <class I16>
inline __attribute__((always_inline)) I16 max16(I16 x, I16 y) {
  return reinterpret_cast<I16>(
      _mm512_max_epi16(reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(y)));
}

template <class U32>
inline __attribute__((always_inline)) bool any(U32 x) {
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(x)) != 0;
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_low(I32 x) {
  return _mm512_cvtepi32_pd(_mm512_castsi512_si256(reinterpret_cast<__m512i>(x)));
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_high(I32 x) {
  return _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(reinterpret_cast<__m512i>(x), 1));
}

template <class F32, class F64>
inline __attribute__((always_inline)) F32 narrow(F64 low, F64 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

}  // namespace
}  // namespace mlacheck::detail

#include "reference/arithmetic/tensor_core_kernel.inc"

namespace mlacheck::detail {
const TensorCoreKernel kAvx512Kernel{unpack, chain};
}  // namespace mlacheck::detail
