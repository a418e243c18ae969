#pragma once

#include <bit>
#include <cstdint>

#include "reference/formats/host_device.h"

namespace mlacheck {

// float8_e8m0fnu: an exponent alone, 2^(bits - 127); 0xff is NaN. No zero, no sign, no infinity.
struct E8m0 {
  std::uint8_t bits;
  friend constexpr bool operator==(E8m0, E8m0) = default;
};

// Exact; 0x00 is the fp32 subnormal 2^-127. NaN becomes the canonical fp32 NaN 0x7fffffff.
MLACHECK_HOST_DEVICE constexpr float to_float(E8m0 x) {
  if (x.bits == 0xff) return std::bit_cast<float>(0x7fffffffu);
  return std::bit_cast<float>(x.bits == 0 ? 0x00400000u : std::uint32_t{x.bits} << 23);
}

// The largest power of two <= |x|. The sign is dropped; below 2^-127, zero included, gives 2^-127;
// infinity gives 2^127; NaN gives 0xff (cvt.rz.satfinite.ue8m0x2.f32).
MLACHECK_HOST_DEVICE constexpr E8m0 to_e8m0_toward_zero(float x) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0xff};
  if (magnitude == 0x7f800000u) return {0xfe};
  return {static_cast<std::uint8_t>(magnitude >> 23)};
}

// The smallest power of two >= |x|, at most 2^127; otherwise as above
// (cvt.rp.satfinite.ue8m0x2.f32).
MLACHECK_HOST_DEVICE constexpr E8m0 to_e8m0_up(float x) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0xff};
  if (magnitude > 0x7f000000u) return {0xfe};
  if (magnitude <= 0x00400000u) return {0x00};
  return {static_cast<std::uint8_t>((magnitude + 0x7fffffu) >> 23)};
}

}  // namespace mlacheck
