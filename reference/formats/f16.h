#pragma once

#include <bit>
#include <cstdint>

#include "reference/formats/host_device.h"

namespace mlacheck {

// IEEE binary16: 1-5-10, bias 15, max 65504.
struct F16 {
  std::uint16_t bits;
  friend constexpr bool operator==(F16, F16) = default;
};

// Exact. Every NaN becomes the canonical fp32 NaN 0x7fffffff (what the GPU returns).
MLACHECK_HOST_DEVICE constexpr float to_float(F16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = x.bits & 0x3ffu;
  if (exponent == 31)
    return std::bit_cast<float>(fraction != 0 ? 0x7fffffffu : (sign | 0x7f800000u));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

// Nearest, ties to even; subnormals kept; magnitudes >= 65520 become Inf; NaN becomes 0x7fff
// (cvt.rn.f16.f32).
MLACHECK_HOST_DEVICE constexpr F16 to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7fff};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude >= 0x38800000u) {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
  }
  // Subnormal result: adding 2^-1 in fp32 leaves a unit in the last place of 2^-24, so the addition
  // rounds.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
  return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
}

}  // namespace mlacheck
