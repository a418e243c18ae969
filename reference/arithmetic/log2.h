#pragma once

#include <bit>
#include <cstdint>

#include "reference/arithmetic/rounded.h"

namespace mlacheck {

// Natural logarithms: ln x = log2(x) * kLn2; lse = m + log2_f32(sum) * kLn2.
inline constexpr float kLn2 = 0x1.62e430p-1f;

// Largest error of log2_f32 in ulp of the result. Of log2_f32(x) * kLn2, relative to 1 + |ln x|:
// one ulp more, for kLn2 and the product.
inline constexpr double kLog2Ulps = 0.960;
inline constexpr float kLnError = rounded_up((kLog2Ulps + 1) * 0x1p-23);

// log2(x) in fp32, the same bits on every CPU and GPU.
//
//   +-0           -inf
//   x < 0, NaN    0x7fffffff
//   +inf          +inf
//   2^n           exact, subnormals too
//
// Error: at most kLog2Ulps of the result over all positive floats, against MPFR (0.827 for x < 1).
//
// x = 2^n (1 + r), 1 + r in [sqrt(1/2), sqrt(2)): log2(x) = n + r log2(e) + r^2 q(r), q a minimax
// polynomial (tools/scripts/minimax.py); the first two terms are summed without error, so that the
// result stays accurate where they cancel and near x = 1.
MLACHECK_HOST_DEVICE inline float log2_f32(float x) {
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3u;
  constexpr float kLog2EHigh = 0x1.715476p+0f, kLog2ELow = 0x1.4ae0c0p-26f;
  if (x == 0.0f) return std::bit_cast<float>(0xff800000u);
  if (!(x > 0.0f)) return std::bit_cast<float>(0x7fffffffu);
  if (x == std::bit_cast<float>(0x7f800000u)) return x;
  const bool subnormal = x < 0x1p-126f;
  const std::uint32_t bits =
      std::bit_cast<std::uint32_t>(subnormal ? mul_rn(x, 0x1p23f) : x) - kSqrtHalf;
  const std::int32_t exponent = static_cast<std::int32_t>(bits) >> 23;
  const float n = static_cast<float>(exponent - (subnormal ? 23 : 0));
  const float r = add_rn(std::bit_cast<float>((bits & 0x7fffffu) + kSqrtHalf), -1.0f);
  float q = 0x1.7166b2p-4f;
  q = fma_rn(q, r, -0x1.52742cp-3f);
  q = fma_rn(q, r, 0x1.626b1ap-3f);
  q = fma_rn(q, r, -0x1.6fed0ap-3f);
  q = fma_rn(q, r, 0x1.a3e142p-3f);
  q = fma_rn(q, r, -0x1.ec614cp-3f);
  q = fma_rn(q, r, 0x1.277ffcp-2f);
  q = fma_rn(q, r, -0x1.7154d6p-2f);
  q = fma_rn(q, r, 0x1.ec7086p-2f);
  q = fma_rn(q, r, -0x1.715476p-1f);
  const float product = mul_rn(r, kLog2EHigh);
  const float product_low = fma_rn(r, kLog2ELow, fma_rn(r, kLog2EHigh, -product));
  const float high = add_rn(n, product);  // |n| >= |product| or n = 0
  const float low = add_rn(add_rn(n, -high), product);
  return add_rn(high, add_rn(low, fma_rn(mul_rn(r, r), q, product_low)));
}

}  // namespace mlacheck
