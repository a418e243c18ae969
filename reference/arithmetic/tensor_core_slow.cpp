#include "reference/arithmetic/tensor_core_slow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace mlacheck {
namespace detail {
namespace {

constexpr std::uint32_t kNan = 0x7fffffffu;
constexpr FloatFormat kF32{23, 8, 0x7f800000u};

// value = significand * 2^(exponent - fraction bits of the format); subnormals have the least
// exponent and no hidden bit.
struct Decoded {
  std::int64_t significand;
  int exponent;
  bool infinite;
  bool nan;
};

Decoded decode(const FloatFormat& format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ((1u << format.sign_bit()) - 1);
  const bool negative = ((bits >> format.sign_bit()) & 1u) != 0;
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  std::int64_t significand = magnitude & ((1u << format.fraction_bits) - 1);
  if (field != 0) significand += std::int64_t{1} << format.fraction_bits;
  const bool has_infinity = (format.first_special & 1u) == 0;
  const bool special = magnitude >= format.first_special;
  const bool infinite = special && has_infinity && magnitude == format.first_special;
  return {negative ? -significand : significand, std::max(field, 1) - format.bias(), infinite,
          special && !infinite};
}

// One addend of a fused step: significand * 2^(exponent - fraction bits).
struct Term {
  std::int64_t significand;
  int exponent;
  int fraction_bits;
};

// term * 2^(F - emax), cut to an integer.
std::int64_t align(const Term& term, int fraction_bits, int emax, bool toward_minus) {
  if (term.significand == 0) return 0;  // its exponent says nothing
  const int shift = fraction_bits - term.fraction_bits - (emax - term.exponent);
  const std::int64_t magnitude = std::abs(term.significand);
  if (shift >= 0) return term.significand * (std::int64_t{1} << shift);
  const std::int64_t cut = shift > -63 ? magnitude >> -shift : 0;
  if (term.significand >= 0) return cut;
  const bool exact = shift > -63 && (cut << -shift) == magnitude;
  return toward_minus && !exact ? -cut - 1 : -cut;
}

int bit_width(std::int64_t magnitude) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(magnitude)));
}

// sum * 2^unit in fp32 with `fraction_bits` below the leading bit.
float round_result(std::int64_t sum, int unit, int fraction_bits, bool to_nearest) {
  std::int64_t magnitude = std::abs(sum);
  const int width = bit_width(magnitude);
  const int drop =
      std::min(std::max({width - (fraction_bits + 1), -126 - fraction_bits - unit, 0}), 62);
  const std::int64_t rest = magnitude & ((std::int64_t{1} << drop) - 1);
  magnitude >>= drop;
  if (to_nearest && drop > 0) {
    const std::int64_t half = std::int64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (magnitude & 1) != 0)) ++magnitude;
  }
  const float result = std::ldexp(static_cast<float>(magnitude), unit + drop);  // exact, or Inf
  return sum < 0 ? -result : result;
}

}  // namespace

float fused_step(const SlowRules& rules, const std::uint16_t* a, const std::uint16_t* b,
                 int products, float c) {
  Term terms[33];  // the products, then c
  bool nan = false;
  bool plus_infinity = false;
  bool minus_infinity = false;
  for (int k = 0; k < products; ++k) {
    const Decoded x = decode(rules.format, a[k]);
    const Decoded y = decode(rules.format, b[k]);
    const bool infinite = x.infinite || y.infinite;
    nan |= x.nan || y.nan || (infinite && (x.significand == 0 || y.significand == 0));
    const std::int64_t product = x.significand * y.significand;
    plus_infinity |= infinite && product > 0;
    minus_infinity |= infinite && product < 0;
    terms[k] = {product, x.exponent + y.exponent, 2 * rules.format.fraction_bits};
    if (rules.normalise_products && product != 0) {
      const int leading = bit_width(std::abs(product)) - 1;
      terms[k].exponent += leading - terms[k].fraction_bits;
      terms[k].fraction_bits = leading;
    }
  }
  const Decoded addend = decode(kF32, std::bit_cast<std::uint32_t>(c));
  nan |= addend.nan;
  plus_infinity |= addend.infinite && addend.significand > 0;
  minus_infinity |= addend.infinite && addend.significand < 0;
  terms[products] = {addend.significand, addend.exponent, 23};
  if (nan || (plus_infinity && minus_infinity)) return std::bit_cast<float>(kNan);
  if (plus_infinity) return std::bit_cast<float>(0x7f800000u);
  if (minus_infinity) return std::bit_cast<float>(0xff800000u);

  int emax = -1000;
  for (int i = 0; i <= products; ++i)
    emax = std::max(emax, terms[i].significand != 0 ? terms[i].exponent : rules.zero_exponent);
  std::int64_t sum = 0;
  for (int i = 0; i <= products; ++i)
    sum += align(terms[i], rules.fraction_bits, emax, rules.align_toward_minus);
  return round_result(sum, emax - rules.fraction_bits, rules.result_fraction_bits,
                      rules.round_to_nearest);
}

float mma_slow(const SlowRules& rules, const std::uint16_t* a, const std::uint16_t* b, float c) {
  std::uint16_t ordered_a[32] = {};
  std::uint16_t ordered_b[32] = {};
  for (int i = 0; i < rules.k; ++i) {
    ordered_a[i] = a[k_at(rules.interleaved, rules.k, i)];
    ordered_b[i] = b[k_at(rules.interleaved, rules.k, i)];
  }
  float d = rules.c_last ? 0.0f : c;
  for (int i = 0; i < rules.k; i += rules.products)
    d = fused_step(rules, ordered_a + i, ordered_b + i, rules.products, d);
  if (rules.c_last) d = c + d;
  return std::isnan(d) ? std::bit_cast<float>(kNan) : d;
}

}  // namespace detail

float mma_slow(Mma mma, const std::uint16_t* a, const std::uint16_t* b, float c) {
  const detail::MmaRules rules = detail::rules_of(mma);
  if (mma.lowering != Lowering::fp8_emulated_sm90) return detail::mma_slow({rules}, a, b, c);
  std::uint16_t unpacked_a[32] = {};
  std::uint16_t unpacked_b[32] = {};
  for (int k = 0; k < rules.k; ++k) {
    unpacked_a[k] = detail::f16_bits_of_e4m3(static_cast<std::uint8_t>(a[k]));
    unpacked_b[k] = detail::f16_bits_of_e4m3(static_cast<std::uint8_t>(b[k]));
  }
  return detail::mma_slow({rules}, unpacked_a, unpacked_b, c);
}

namespace {

template <class Bits, int kK>
void mma_tile_slow(Mma mma, const Bits (&a)[16][kK], const Bits (&b)[kK][8],
                   const float (&c)[16][8], float (&d)[16][8]) {
  detail::require_k(mma, kK);
  for (int m = 0; m < kMmaRows; ++m)
    for (int n = 0; n < kMmaColumns; ++n) {
      std::uint16_t row[kK];
      std::uint16_t column[kK];
      for (int k = 0; k < kK; ++k) {
        row[k] = a[m][k];
        column[k] = b[k][n];
      }
      d[m][n] = mma_slow(mma, row, column, c[m][n]);
    }
}

}  // namespace

void mma_m16n8k16_slow(Mma mma, const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[16][8],
                       const float (&c)[16][8], float (&d)[16][8]) {
  mma_tile_slow(mma, a, b, c, d);
}

void mma_m16n8k32_slow(Mma mma, const std::uint8_t (&a)[16][32], const std::uint8_t (&b)[32][8],
                       const float (&c)[16][8], float (&d)[16][8]) {
  mma_tile_slow(mma, a, b, c, d);
}

}  // namespace mlacheck
