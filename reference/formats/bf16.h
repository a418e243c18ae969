#pragma once

#include <bit>
#include <cstdint>

#include "reference/formats/host_device.h"

namespace mlacheck {

// bfloat16: 1-8-7, the upper half of an fp32.
struct Bf16 {
  std::uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

// Exact. Every NaN becomes the canonical fp32 NaN 0x7fffffff.
MLACHECK_HOST_DEVICE constexpr float to_float(Bf16 x) {
  const bool nan = (x.bits & 0x7fffu) > 0x7f80u;
  return std::bit_cast<float>(nan ? 0x7fffffffu : std::uint32_t{x.bits} << 16);
}

// Nearest, ties to even; subnormals kept; overflow becomes Inf; NaN becomes 0x7fff
// (cvt.rn.bf16.f32).
MLACHECK_HOST_DEVICE constexpr Bf16 to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace mlacheck
