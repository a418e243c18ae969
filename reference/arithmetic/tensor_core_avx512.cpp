// The fast form on 512-bit vectors. Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl.
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

}  // namespace
}  // namespace mlacheck::detail

#include "reference/arithmetic/tensor_core_kernel_inl.h"

namespace mlacheck::detail {
const TensorCoreKernel kAvx512Kernel{unpack, chain};
}  // namespace mlacheck::detail
