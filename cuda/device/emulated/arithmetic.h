#pragma once

#include <bit>
#include <cmath>

namespace mlacheck::device {

namespace detail {

// The GPU's one NaN.
inline float canonical(float x) { return std::isnan(x) ? std::bit_cast<float>(0x7fffffffu) : x; }

}  // namespace detail

inline float add(float a, float b) { return detail::canonical(a + b); }
inline float multiply(float a, float b) { return detail::canonical(a * b); }
inline float fused_multiply_add(float a, float b, float c) {
  return detail::canonical(std::fma(a, b, c));
}
inline float divide(float a, float b) { return detail::canonical(a / b); }

inline float maximum(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::bit_cast<float>(0x7fffffffu);
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

inline std::uint32_t Divisor::quotient(std::uint32_t n) const {
  return (static_cast<std::uint32_t>(std::uint64_t{n} * factor_ >> 32) + n) >> shift_;
}

}  // namespace mlacheck::device
