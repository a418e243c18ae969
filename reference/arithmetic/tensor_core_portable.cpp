// The fast form on 128-bit vectors: the baseline of x86-64 and aarch64, or whatever the compiler
// makes of them.
#include <cstdint>

#include "reference/arithmetic/tensor_core_kernel.h"

namespace mlacheck::detail {
namespace {

constexpr int kWidth = 4;

template <class I16>
inline __attribute__((always_inline)) I16 max16(I16 x, I16 y) {
  const auto greater = x > y;
  return (x & greater) | (y & ~greater);
}

template <class U32>
inline __attribute__((always_inline)) bool any(U32 x) {
  std::uint64_t words[2];
  __builtin_memcpy(words, &x, sizeof words);
  return (words[0] | words[1]) != 0;
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_low(I32 x) {
  return F64{static_cast<double>(x[0]), static_cast<double>(x[1])};
}

template <class F64, class I32>
inline __attribute__((always_inline)) F64 widen_high(I32 x) {
  return F64{static_cast<double>(x[2]), static_cast<double>(x[3])};
}

template <class F32, class F64>
inline __attribute__((always_inline)) F32 narrow(F64 low, F64 high) {
  return F32{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
             static_cast<float>(high[1])};
}

}  // namespace
}  // namespace mlacheck::detail

#include "reference/arithmetic/tensor_core_kernel.inc"

namespace mlacheck::detail {
const TensorCoreKernel kPortableKernel{unpack, chain};
}  // namespace mlacheck::detail
