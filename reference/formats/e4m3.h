#pragma once

#include <bit>
#include <cstdint>

#include "reference/formats/host_device.h"

namespace mlacheck {

// float8_e4m3fn: 1-4-3, bias 7, max 448 = 0x7e, NaN = 0x7f and 0xff, no infinity.
struct E4m3 {
  std::uint8_t bits;
  friend constexpr bool operator==(E4m3, E4m3) = default;
};

// Exact. NaN becomes the canonical fp32 NaN 0x7fffffff.
MLACHECK_HOST_DEVICE constexpr float to_float(E4m3 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x80u} << 24;
  const std::uint32_t magnitude = x.bits & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(0x7fffffffu);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

namespace detail {

// Nearest, ties to even, of a magnitude that is not NaN; `overflow` is returned when the result
// would exceed 448.
MLACHECK_HOST_DEVICE constexpr std::uint8_t e4m3_magnitude(std::uint32_t magnitude,
                                                           std::uint8_t overflow) {
  if (magnitude > 0x43e80000u) return overflow;  // above 464, the middle between 448 and 480
  if (magnitude < 0x3c800000u) {  // below 2^-6: adding 2^14 leaves a last place of 2^-9
    const float aligned = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(aligned) - 0x46800000u);
  }
  const std::uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<std::uint8_t>((rounded - (120u << 23)) >> 20);
}

}  // namespace detail

// Nearest, ties to even; magnitudes that round above 448, and infinities, become +-448; NaN becomes
// 0x7f (cvt.rn.satfinite.e4m3x2.f32).
MLACHECK_HOST_DEVICE constexpr E4m3 to_e4m3_saturating(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7f};
  return {static_cast<std::uint8_t>(((bits >> 24) & 0x80u) |
                                    detail::e4m3_magnitude(bits & 0x7fffffffu, 0x7e))};
}

// Nearest, ties to even; magnitudes that round above 448, and infinities, become NaN with their
// sign (torch's .to(float8_e4m3fn)); NaN becomes 0x7f, where torch keeps the sign.
MLACHECK_HOST_DEVICE constexpr E4m3 to_e4m3(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7f};
  return {static_cast<std::uint8_t>(((bits >> 24) & 0x80u) |
                                    detail::e4m3_magnitude(bits & 0x7fffffffu, 0x7f))};
}

}  // namespace mlacheck
