#pragma once

#include <bit>
#include <cstdint>

#include "cuda/device/platform.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"

namespace mlacheck::device {

// fp32, each rounded once to nearest even, never contracted, subnormals kept. Every NaN result is
// 0x7fffffff, on a GPU and here.
MLACHECK_DEVICE_FN float add(float a, float b);
MLACHECK_DEVICE_FN float multiply(float a, float b);
MLACHECK_DEVICE_FN float fused_multiply_add(float a, float b, float c);  // a b + c
MLACHECK_DEVICE_FN float divide(float a, float b);
// NaN if either is; +0 is above -0.
MLACHECK_DEVICE_FN float maximum(float a, float b);

// The project's own, the same bits everywhere: errors and specials are stated beside them.
using mlacheck::exp2_f32;
using mlacheck::log2_f32;

// n / d for n < 2^31 by a factor that the host prepares: no division on the GPU.
class Divisor {
 public:
  Divisor() = default;
  // d in [1, 2^31). With 2^s the least power of two not below d,
  //   n / d = (n + floor(n f / 2^32)) >> s,  f = floor(2^32 (2^s - d) / d) + 1
  // exactly (Granlund and Montgomery, PLDI 1994).
  explicit Divisor(std::uint32_t d)
      : divisor_(d),
        shift_(static_cast<std::uint32_t>(std::bit_width(d - 1))),
        factor_(static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - d) << 32) / d + 1)) {}
  MLACHECK_DEVICE_FN std::uint32_t quotient(std::uint32_t n) const;
  MLACHECK_DEVICE_FN std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t shift_ = 0;
  std::uint32_t factor_ = 1;
};

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/arithmetic.h"
#else
#include "cuda/device/emulated/arithmetic.h"
#endif
