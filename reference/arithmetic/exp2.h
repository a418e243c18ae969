#pragma once

#include <bit>
#include <cstdint>

#include "reference/arithmetic/rounded.h"

namespace mlacheck {

// Natural exponentials: e^x = 2^(x kLog2E); a softmax weight is exp2_f32((s - m) * kLog2E).
inline constexpr float kLog2E = 0x1.715476p+0f;

// Largest error of exp2_f32 in ulp of the result, and relative to it.
inline constexpr double kExp2Ulps = 0.808;
inline constexpr float kExp2Error = rounded_up(kExp2Ulps * 0x1p-23);

// 2^x in fp32, the same bits on every CPU and GPU.
//
//   x < -126 (-inf too)   +0: subnormal results are flushed, an absolute error below 2^-126
//   x >= 128 (+inf too)   +inf
//   NaN                   0x7fffffff
//   an integer x          exact
//
// Error: at most kExp2Ulps over all x in [-126, 128), against MPFR. Not monotone: of two
// neighbouring x the larger may give 1 ulp less. x <= 0 never gives more than 1.
//
// x = n + f with n the nearest integer, |f| <= 1/2; 2^f by a minimax polynomial
// (tools/scripts/minimax.py), then n is added to its exponent.
MLACHECK_HOST_DEVICE inline float exp2_f32(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer, kept in the low bits
  const float shifted = add_rn(x, kRound);
  const float f = add_rn(x, -add_rn(shifted, -kRound));
  float p = 0x1.415fdep-13f;
  p = fma_rn(p, f, 0x1.5f0934p-10f);
  p = fma_rn(p, f, 0x1.3b2dfap-7f);
  p = fma_rn(p, f, 0x1.c6af7ap-5f);
  p = fma_rn(p, f, 0x1.ebfbdcp-3f);
  p = fma_rn(p, f, 0x1.62e430p-1f);
  p = fma_rn(p, f, 1.0f);
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                                           (std::bit_cast<std::uint32_t>(shifted) << 23));
  // Selected at the end, not returned early: a GPU's lanes would take turns.
  const float within = x < -126.0f ? 0.0f : power;
  const float large = x >= 128.0f ? std::bit_cast<float>(0x7f800000u) : within;
  return x != x ? std::bit_cast<float>(0x7fffffffu) : large;
}

}  // namespace mlacheck
