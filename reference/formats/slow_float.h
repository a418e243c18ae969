#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mlacheck {

// A small binary format by its definition, for tests alone: values are decoded by formula into a
// list, and a number is rounded by finding its neighbours in that list and comparing it with the
// middle between them. It shares nothing with the conversions that it judges. Codes here are
// magnitudes, without the sign bit.
class SlowFloat {
 public:
  // last_finite: the code of the largest finite value.
  SlowFloat(int fraction_bits, int bias, std::uint32_t last_finite)
      : fraction_bits_(fraction_bits), bias_(bias), overflow_(last_finite + 1) {
    for (std::uint32_t code = 0; code <= overflow_; ++code) values_.push_back(decode(code));
  }

  double decode(std::uint32_t code) const {
    const int exponent = static_cast<int>(code >> fraction_bits_);
    const int fraction = static_cast<int>(code & ((1u << fraction_bits_) - 1));
    if (exponent == 0) return std::ldexp(fraction, 1 - bias_ - fraction_bits_);
    return std::ldexp((1 << fraction_bits_) + fraction, exponent - bias_ - fraction_bits_);
  }

  // The first code that is not finite; rounding a magnitude too large to it means overflow.
  std::uint32_t overflow() const { return overflow_; }

  // Nearest, ties to the even code. The code after the last finite one stands for the value it
  // would have if the exponent range went on, as IEEE 754 rounds. magnitude: an fp32 value >= 0 or
  // infinity; all sums here are exact.
  std::uint32_t nearest(double magnitude) const {
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return overflow_;
    const auto code = static_cast<std::uint32_t>(above - values_.begin()) - 1;
    const double twice_middle = values_[code] + values_[code + 1];
    if (2 * magnitude < twice_middle) return code;
    if (2 * magnitude > twice_middle) return code + 1;
    return code % 2 == 0 ? code : code + 1;
  }

 private:
  int fraction_bits_;
  int bias_;
  std::uint32_t overflow_;
  std::vector<double> values_;
};

inline SlowFloat slow_f16() { return {10, 15, 0x7bff}; }
inline SlowFloat slow_bf16() { return {7, 127, 0x7f7f}; }
inline SlowFloat slow_e4m3() { return {3, 7, 0x7e}; }

}  // namespace mlacheck
