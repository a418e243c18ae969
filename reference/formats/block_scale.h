#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/formats/e4m3.h"

namespace mlacheck {

// Scales of e4m3 blocks: x ~ q * s, |q| <= 448. With a = max(amax, amax_floor), amax the block's
// largest magnitude, there are two rules:
//
//   P2    s = 2^ceil(log2(a / 448))    DeepSeek, FlashMLA, every engine's indexer keys ("ue8m0")
//   ARB   s = a / 448                  vLLM's and SGLang's fp8 KV cache ("arbitrary fp32")
//
// x / s is exact under P2, so x is rounded once, to e4m3; under ARB it is rounded twice.
// amax_floor keeps s away from zero. A floor on a / 448 itself, f, is an amax_floor of 448 * f. NaN
// counts as the floor; an infinite amax gives s = inf. With amax = amax_floor = 0, s is 0 and the
// block becomes NaN.

// How a division by c is spelled: x / c rounds once, x * (1 / c) twice. Under ARB they differ in
// the last bit of s for 4,593,760 of the 2^23 fractions of amax; under P2 never.
enum class Division { divide, multiply_by_reciprocal };

namespace detail {

constexpr float quotient(float x, float divisor, Division spelling) {
  return spelling == Division::divide ? x / divisor : x * (1.0f / divisor);
}

constexpr float at_least(float amax, float amax_floor) {
  return amax > amax_floor ? amax : amax_floor;
}

}  // namespace detail

// Rule P2, by the exponent's bits: one up unless the fraction is zero (DeepSeek's spelling; one
// through a rounded log2f returns too small a power up to a few ulp above 2^-6 and less, which no
// bf16 amax meets).
constexpr float p2_scale(float amax, float amax_floor) {
  const float ratio = detail::quotient(detail::at_least(amax, amax_floor), 448.0f,
                                       Division::multiply_by_reciprocal);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(ratio) + 0x7fffffu) & 0x7f800000u);
}

// Rule ARB.
constexpr float arb_scale(float amax, float amax_floor, Division spelling) {
  return detail::quotient(detail::at_least(amax, amax_floor), 448.0f, spelling);
}

// The largest |x[i]|, i in [0, n); NaN is passed over; 0 when there is none.
inline float largest_magnitude(const float* x, std::int64_t n) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (std::fabs(x[i]) > largest) largest = std::fabs(x[i]);
  return largest;
}

// q[i] = e4m3(x[i] / scale), saturating; NaN becomes 0x7f.
inline void quantise(const float* x, std::int64_t n, float scale, Division spelling, E4m3* q) {
  for (std::int64_t i = 0; i < n; ++i)
    q[i] = to_e4m3_saturating(detail::quotient(x[i], scale, spelling));
}

}  // namespace mlacheck
