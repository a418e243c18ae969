#pragma once

#include <cstdint>

#include "reference/arithmetic/tensor_core.h"

namespace mlacheck::detail {

// A binary format of at most 16 bits, sign first. Its functions are used by code for instruction
// sets that the CPU may lack, which must leave no copy of them that others could be linked to.
struct FloatFormat {
  int fraction_bits;
  int exponent_bits;
  std::uint32_t first_special;  // magnitudes from here on are Inf or NaN
  [[gnu::always_inline]] constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[gnu::always_inline]] constexpr int min_exponent() const { return 1 - bias(); }
  [[gnu::always_inline]] constexpr int sign_bit() const { return fraction_bits + exponent_bits; }
};

inline constexpr FloatFormat kF16{10, 5, 0x7c00};
inline constexpr FloatFormat kBf16{7, 8, 0x7f80};
inline constexpr FloatFormat kE4m3{3, 4, 0x7f};  // one NaN, no Inf

// A lowering in numbers.
struct MmaRules {
  FloatFormat format;  // as the adder sees it: sm_90 unpacks e4m3 to f16
  int k;               // of the instruction
  int products;        // L
  int fraction_bits;   // F, below the largest exponent
  int result_fraction_bits;
  int zero_exponent;  // with which a zero term takes part in emax; felt only when all else is below
                      // 2^-126
  bool interleaved;   // k mod 4 in {0, 1} first, then {2, 3}
  bool c_last;        // the steps start from 0, and C joins by an fp32 addition, nearest
};

// Throws std::invalid_argument when the lowering does not take the element type.
MmaRules rules_of(Mma mma);

// Throws std::invalid_argument unless mma_k(mma) == k.
void require_k(Mma mma, int k);

// The k that stands at place `i` of the order in which the steps take them.
constexpr int k_at(bool interleaved, int k, int i) {
  if (!interleaved) return i;
  const int half = k / 2;
  const int j = i < half ? i : i - half;
  return 4 * (j / 2) + j % 2 + (i < half ? 0 : 2);
}

// e4m3 to f16 bits, exact; NaN becomes 0x7fff.
std::uint16_t f16_bits_of_e4m3(std::uint8_t bits);

}  // namespace mlacheck::detail
