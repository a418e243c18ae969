// The fast exact form of the fused step, for vectors of kWidth lanes. Included once by each
// tensor_core_<isa>.cpp, which first defines kWidth and the two operations that compilers do not
// find by themselves.
//
//   1. emax = max over k of ea[k] + eb[k], and of the exponent of C      int16 additions and maxima
//   2. S    = sum of int32((a[k] * b[k]) * 2^(F - emax))                 the product is exact in
//   fp32, scaling by a
//             power of two too, and the truncating conversion is the hardware's truncation
//   3. D    = double(S) + double(C aligned likewise), low bits masked off, times 2^(emax - F)
//
// |S| < 2^31 for 16 products: 16 * (2047/1024)^2 * 2^25 = 2145387008.
//
// The including file is compiled for an instruction set that the CPU may lack, so everything here
// has internal linkage and nothing of the standard library is called: a shared inline function
// compiled here must not reach other callers.

namespace mlacheck::detail {
namespace {

constexpr int kVectors = kMmaRows / kWidth;  // of one column of C

using F32 = float __attribute__((vector_size(4 * kWidth)));
using I32 = std::int32_t __attribute__((vector_size(4 * kWidth)));
using U32 = std::uint32_t __attribute__((vector_size(4 * kWidth)));
using I16 = std::int16_t __attribute__((vector_size(4 * kWidth)));
// Half the lanes.
using F64 = double __attribute__((vector_size(4 * kWidth)));
using I64 = std::int64_t __attribute__((vector_size(4 * kWidth)));

template <class To, class From>
inline __attribute__((always_inline)) To as(From x) {
  return reinterpret_cast<To>(x);
}

template <class Vector, class T>
inline __attribute__((always_inline)) Vector load(const T* from) {
  Vector v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class Vector, class T>
inline __attribute__((always_inline)) void store(T* to, Vector v) {
  __builtin_memcpy(to, &v, sizeof v);
}

inline __attribute__((always_inline)) U32 select(U32 mask, U32 yes, U32 no) {
  return (mask & yes) | (~mask & no);
}

// Larger of two numbers that fit in 16 bits, in 32-bit lanes: the upper halves hold signs, and
// their maximum is right too.
inline __attribute__((always_inline)) I32 max_small(I32 x, I32 y) {
  return as<I32>(max16(as<I16>(x), as<I16>(y)));
}

void unpack(const FloatFormat& format, const std::uint32_t* pairs, int n, float* even, float* odd,
            std::uint32_t* exponents) {
  const int sign_bit = format.sign_bit();
  const int least = format.min_exponent();
  const std::uint32_t magnitudes = (1u << sign_bit) - 1;
  const F32 rebias = as<F32>(U32{} + (static_cast<std::uint32_t>(254 - format.bias()) << 23));
  const auto half = [&](U32 bits, float* value) {
    const U32 magnitude = bits & magnitudes;
    const U32 sign = (bits >> sign_bit) << 31;
    const F32 x = as<F32>(magnitude << (23 - format.fraction_bits)) * rebias;
    store(value, as<U32>(x) | sign);
    const I32 exponent = max_small(as<I32>(as<U32>(x) >> 23) - 127, I32{} + least);
    const U32 zero = as<U32>(magnitude == 0);
    const U32 special = as<U32>(magnitude >= format.first_special);
    return select(special, U32{} + kSpecialExponent,
                  select(zero, as<U32>(I32{} + kZeroExponent), as<U32>(exponent)));
  };
  for (int i = 0; i < n; i += kWidth) {
    const U32 pair = load<U32>(pairs + i);
    const U32 low = half(pair & 0xffffu, even + i);
    const U32 high = half(pair >> 16, odd + i);
    store(exponents + i, (low & 0xffffu) | (high << 16));
  }
}

// The sums of both halves of some I32, the bits below `mask` cut off, in fp32.
template <class... Sums>
inline __attribute__((always_inline)) F32 truncated_sum(std::int64_t mask, const Sums&... sums) {
  const F64 low = (... + widen_low<F64>(sums));
  const F64 high = (... + widen_high<F64>(sums));
  return narrow<F32>(as<F64>(as<I64>(low) & mask), as<F64>(as<I64>(high) & mask));
}

// What the rules say, in the form that a step needs.
struct StepConstants {
  int fraction_bits;
  std::int64_t sum_mask;      // on a double: the bits that a result keeps
  std::uint32_t result_mask;  // the same on fp32
};

// One fused step of kProducts products, from pair kPair of blocks a and b on, on column n of C:
// c[16], in place.
template <int kProducts, int kPair>
inline __attribute__((always_inline)) void fused_step(const MmaRules& rules,
                                                      const StepConstants& constants,
                                                      const MmaBlockA* a, const MmaBlockB* b, int n,
                                                      float* c) {
  constexpr int kBlocks = kProducts == 32 ? 2 : 1;
  constexpr int kEnd = kPair + kProducts / 2 / kBlocks;

  I16 largest[kVectors];
  for (int v = 0; v < kVectors; ++v) largest[v] = I16{} + std::int16_t{2 * kZeroExponent};
  for (int block = 0; block < kBlocks; ++block) {
    const std::int16_t* exponents = b[block].exponent[0][n];
    for (int p = kPair; p < kEnd; ++p) {
      const I16 eb = as<I16>(U32{} + load<std::uint32_t>(exponents + 2 * kMmaColumns * p));
      for (int v = 0; v < kVectors; ++v)
        largest[v] = max16(largest[v], load<I16>(a[block].exponent[p][v * kWidth]) + eb);
    }
  }

  I32 emax[kVectors];
  U32 no_product[kVectors];
  U32 outside[kVectors];
  F32 scale[kVectors];
  U32 any_outside{};
  for (int v = 0; v < kVectors; ++v) {
    const U32 swapped = (as<U32>(largest[v]) << 16) | (as<U32>(largest[v]) >> 16);
    const I32 products = as<I32>(max16(largest[v], as<I16>(swapped))) >> 16;
    const U32 c_magnitude = load<U32>(c + v * kWidth) & 0x7fffffffu;
    const I32 c_exponent = max_small(as<I32>(c_magnitude >> 23), I32{} + 1) - 127;
    const I32 addend = as<I32>(
        select(as<U32>(c_magnitude == 0), as<U32>(I32{} + kZeroExponent), as<U32>(c_exponent)));
    const I32 both = max_small(products, addend);
    no_product[v] = as<U32>(products < kNoProduct);
    outside[v] = as<U32>(both > kMostEmax) | (as<U32>(both < kLeastEmax) & ~no_product[v]);
    any_outside |= outside[v];
    emax[v] = max_small(both, I32{} + kLeastEmax);
    scale[v] = as<F32>((constants.fraction_bits + 127 - emax[v]) << 23);
  }

  U32 sum[kBlocks][kVectors] = {};
  for (int block = 0; block < kBlocks; ++block) {
    const float* values = &b[block].value[0][0][n];
    for (int j = 0; j < 2; ++j)
      for (int p = kPair; p < kEnd; ++p) {
        const F32 y = as<F32>(U32{} + load<std::uint32_t>(values + kMmaColumns * (8 * j + p)));
        for (int v = 0; v < kVectors; ++v) {
          const F32 product = load<F32>(&a[block].value[j][p][v * kWidth]) * y;
          sum[block][v] += as<U32>(__builtin_convertvector(product * scale[v], I32));
        }
      }
  }

  U32 result[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const F32 x = load<F32>(c + v * kWidth);
    const I32 aligned = __builtin_convertvector(x * scale[v], I32);
    F32 d;
    if constexpr (kBlocks == 2)
      d = truncated_sum(constants.sum_mask, as<I32>(sum[0][v]), as<I32>(sum[1][v]), aligned);
    else
      d = truncated_sum(constants.sum_mask, as<I32>(sum[0][v]), aligned);
    d *= as<F32>((emax[v] + 127 - constants.fraction_bits) << 23);
    // Without products C stays, except that -0 becomes +0.
    result[v] = select(no_product[v], as<U32>(x + 0.0f) & constants.result_mask, as<U32>(d));
  }
  if (__builtin_expect(any(any_outside), 0)) {
    for (int m = 0; m < kMmaRows; ++m)
      if (outside[m / kWidth][m % kWidth] != 0)
        result[m / kWidth][m % kWidth] =
            __builtin_bit_cast(std::uint32_t, fused_step_of_blocks(rules, a, b, kPair, m, n, c[m]));
  }
  for (int v = 0; v < kVectors; ++v) store(c + v * kWidth, result[v]);
}

// One instruction on column n of C, which for kCLast joins after the steps.
template <int kK, int kProducts, bool kCLast>
inline __attribute__((always_inline)) void instruction(const MmaRules& rules,
                                                       const StepConstants& constants,
                                                       const MmaBlockA* a, const MmaBlockB* b,
                                                       int n, float* c) {
  alignas(64) float from_zero[kMmaRows] = {};
  float* d = kCLast ? from_zero : c;
  fused_step<kProducts, 0>(rules, constants, a, b, n, d);
  if constexpr (kProducts == 8) fused_step<8, 4>(rules, constants, a, b, n, d);
  if constexpr (kProducts == 16 && kK == 32)
    fused_step<16, 0>(rules, constants, a + 1, b + 1, n, d);
  if constexpr (kCLast)
    for (int m = 0; m < kMmaRows; m += kWidth) {
      const F32 x = load<F32>(c + m) + load<F32>(from_zero + m);
      store(c + m, select(as<U32>(x == x), as<U32>(x), U32{} + 0x7fffffffu));
    }
}

template <int kK, int kProducts, bool kCLast>
void chain_of(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b,
              std::int64_t instructions, float (&c)[16][8]) {
  const StepConstants constants{rules.fraction_bits,
                                -(std::int64_t{1} << (52 - rules.result_fraction_bits)),
                                ~0u << (23 - rules.result_fraction_bits)};
  alignas(64) float columns[kMmaColumns][kMmaRows];
  for (int m = 0; m < kMmaRows; ++m)
    for (int n = 0; n < kMmaColumns; ++n) columns[n][m] = c[m][n];
  for (std::int64_t i = 0; i < instructions; ++i, a += kK / 16, b += kK / 16)
    for (int n = 0; n < kMmaColumns; ++n)
      instruction<kK, kProducts, kCLast>(rules, constants, a, b, n, columns[n]);
  for (int m = 0; m < kMmaRows; ++m)
    for (int n = 0; n < kMmaColumns; ++n) c[m][n] = columns[n][m];
}

void chain(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b, std::int64_t instructions,
           float (&c)[16][8]) {
  if (rules.c_last) return chain_of<32, 16, true>(rules, a, b, instructions, c);
  if (rules.products == 32) return chain_of<32, 32, false>(rules, a, b, instructions, c);
  if (rules.products == 8) return chain_of<16, 8, false>(rules, a, b, instructions, c);
  if (rules.k == 32) return chain_of<32, 16, false>(rules, a, b, instructions, c);
  return chain_of<16, 16, false>(rules, a, b, instructions, c);
}

}  // namespace
}  // namespace mlacheck::detail
