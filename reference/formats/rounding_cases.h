#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"
#include "reference/formats/slow_float.h"

namespace mlacheck {

// What the rounding tests ask of the conversions, for tests alone: the slow answers and the fp32
// inputs.

// The code that an fp32 must become: sign, and the rounded magnitude; every NaN gives nan_code.
inline std::uint32_t slow_code(const SlowFloat& format, std::uint32_t sign_bit,
                               std::uint32_t nan_code, std::uint32_t largest_code, float x) {
  if (std::isnan(x)) return nan_code;
  const std::uint32_t code = format.nearest(std::fabs(static_cast<double>(x)));
  return (std::signbit(x) ? sign_bit : 0u) | std::min(code, largest_code);
}

// The conversions under test, each with its slow model. The answers of one fp32 go into four codes.
struct RoundedCodes {
  std::uint32_t f16, bf16, e4m3_saturating, e4m3;
  friend bool operator==(const RoundedCodes&, const RoundedCodes&) = default;
};

class SlowRounding {
 public:
  RoundedCodes operator()(float x) const {
    return {slow_code(f16_, 0x8000, 0x7fff, 0x7c00, x), slow_code(bf16_, 0x8000, 0x7fff, 0x7f80, x),
            slow_code(e4m3_, 0x80, 0x7f, 0x7e, x), slow_code(e4m3_, 0x80, 0x7f, 0x7f, x)};
  }

 private:
  SlowFloat f16_ = slow_f16();
  SlowFloat bf16_ = slow_bf16();
  SlowFloat e4m3_ = slow_e4m3();
};

inline RoundedCodes fast_rounding(float x) {
  return {to_f16(x).bits, to_bf16(x).bits, to_e4m3_saturating(x).bits, to_e4m3(x).bits};
}

// Every value of a format and every middle between neighbours, with the 8 fp32 values on either
// side; both signs.
inline void append_boundaries(const SlowFloat& format, std::vector<std::uint32_t>& bits) {
  const auto append_around = [&](double value) {
    const auto centre = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    for (std::uint32_t step = 0; step <= 16; ++step) {
      const std::uint32_t near = (centre + step - 8) & 0x7fffffffu;
      bits.push_back(near);
      bits.push_back(near | 0x80000000u);
    }
  };
  for (std::uint32_t code = 0; code < format.overflow(); ++code) {
    append_around(format.decode(code));
    append_around((format.decode(code) + format.decode(code + 1)) / 2);
  }
}

// Every exponent with the fractions where rounding goes wrong: sums and differences of two powers
// of two, and their complements (the pattern families of Berkeley TestFloat's level 2); both signs,
// infinities and NaN included.
inline void append_patterns(std::vector<std::uint32_t>& bits) {
  std::vector<std::uint32_t> fractions;
  for (int i = 0; i < 23; ++i)
    for (int j = 0; j <= i; ++j)
      for (std::uint32_t fraction : {(1u << i) + (1u << j), (1u << i) - (1u << j), 1u << i}) {
        fractions.push_back(fraction & 0x7fffffu);
        fractions.push_back(~fraction & 0x7fffffu);
      }
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (std::uint32_t fraction : fractions) bits.push_back(sign_and_exponent << 23 | fraction);
}

inline std::vector<std::uint32_t> structured_inputs() {
  std::vector<std::uint32_t> bits;
  append_boundaries(slow_f16(), bits);
  append_boundaries(slow_bf16(), bits);
  append_boundaries(slow_e4m3(), bits);
  append_patterns(bits);
  return bits;
}

// Input i of 2^26 that cover all fp32 evenly: one at a random place in each run of 64 neighbours.
inline std::uint32_t stratified_input(std::uint64_t i) {
  std::uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;  // splitmix64
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(i * 64 + (mixed >> 58));
}
inline constexpr std::int64_t kStratifiedInputs = std::int64_t{1} << 26;

// How many of the inputs input(0 .. count) the two functions answer differently. Uses all threads.
template <class Input, class First, class Second>
std::int64_t count_differences(std::int64_t count, Input input, First first, Second second) {
  std::int64_t different = 0;
#pragma omp parallel for reduction(+ : different) schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = std::bit_cast<float>(input(i));
    if (!(first(x) == second(x))) ++different;
  }
  return different;
}

}  // namespace mlacheck
