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
using I32Half = std::int32_t __attribute__((vector_size(2 * kWidth)));
using F32Half = float __attribute__((vector_size(2 * kWidth)));

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

template <class Vector>
inline __attribute__((always_inline)) char* as_bytes(Vector& v) {
  return reinterpret_cast<char*>(&v);
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

// The leading bits, by `mask`, of the sum of three numbers (33 bits at most), in fp32.
inline __attribute__((always_inline)) F32 truncated_sum(I32 x, I32 y, I32 z, std::int64_t mask) {
  F32 result{};
  for (int half = 0; half < 2; ++half) {
    const auto widen = [half](I32& v) {
      I32Half part;
      __builtin_memcpy(&part, as_bytes(v) + half * sizeof part, sizeof part);
      return __builtin_convertvector(part, F64);
    };
    const F64 sum = widen(x) + widen(y) + widen(z);
    const F32Half part = __builtin_convertvector(as<F64>(as<I64>(sum) & mask), F32Half);
    __builtin_memcpy(as_bytes(result) + half * sizeof part, &part, sizeof part);
  }
  return result;
}

// One fused step of kProducts products, from pair `pair` of block a and b, on column n of C. c[16],
// in place.
template <int kProducts>
inline __attribute__((always_inline)) void fused_step(const MmaRules& rules, const MmaBlockA* a,
                                                      const MmaBlockB* b, int pair, int n,
                                                      float* c) {
  constexpr int kPairs = kProducts / 2 < 8 ? kProducts / 2 : 8;  // of one block
  constexpr int kBlocks = kProducts == 32 ? 2 : 1;

  I16 largest[kVectors];
  for (int v = 0; v < kVectors; ++v)
    largest[v] = I16{} + static_cast<std::int16_t>(2 * kZeroExponent);
  for (int block = 0; block < kBlocks; ++block)
    for (int p = pair; p < pair + kPairs; ++p) {
      const I16 eb = as<I16>(U32{} + load<std::uint32_t>(b[block].exponent[p][n]));
      for (int v = 0; v < kVectors; ++v)
        largest[v] = max16(largest[v], load<I16>(a[block].exponent[p][v * kWidth]) + eb);
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
    const I32 c_counts = as<I32>(
        select(as<U32>(c_magnitude == 0), as<U32>(I32{} + kZeroExponent), as<U32>(c_exponent)));
    const I32 both = max_small(products, c_counts);
    no_product[v] = as<U32>(products < kNoProduct);
    outside[v] = as<U32>(both > kMostEmax) | (as<U32>(both < kLeastEmax) & ~no_product[v]);
    any_outside |= outside[v];
    emax[v] = max_small(both, I32{} + kLeastEmax);
    scale[v] = as<F32>((rules.fraction_bits + 127 - emax[v]) << 23);
  }

  U32 sum[2][kVectors] = {};
  for (int block = 0; block < kBlocks; ++block)
    for (int p = pair; p < pair + kPairs; ++p)
      for (int j = 0; j < 2; ++j) {
        const F32 y = as<F32>(U32{} + load<std::uint32_t>(&b[block].value[j][p][n]));
        for (int v = 0; v < kVectors; ++v) {
          const F32 product = load<F32>(&a[block].value[j][p][v * kWidth]) * y;
          sum[block][v] += as<U32>(__builtin_convertvector(product * scale[v], I32));
        }
      }

  const std::int64_t mask = ~((std::int64_t{1} << (52 - rules.result_fraction_bits)) - 1);
  const std::uint32_t cut = ~((1u << (23 - rules.result_fraction_bits)) - 1);
  U32 result[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const F32 x = load<F32>(c + v * kWidth);
    const I32 aligned = __builtin_convertvector(x * scale[v], I32);
    const F32 unit = as<F32>((emax[v] + 127 - rules.fraction_bits) << 23);
    const F32 d = truncated_sum(as<I32>(sum[0][v]), as<I32>(sum[1][v]), aligned, mask) * unit;
    // Without products C stays, except that -0 becomes +0.
    result[v] = select(no_product[v], as<U32>(x + 0.0f) & cut, as<U32>(d));
  }
  if (__builtin_expect(any(any_outside), 0)) {
    for (int m = 0; m < kMmaRows; ++m)
      if (outside[m / kWidth][m % kWidth] != 0)
        result[m / kWidth][m % kWidth] =
            __builtin_bit_cast(std::uint32_t, fused_step_of_blocks(rules, a, b, pair, m, n, c[m]));
  }
  for (int v = 0; v < kVectors; ++v) store(c + v * kWidth, result[v]);
}

template <int kProducts>
void chain_of(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b,
              std::int64_t instructions, float (&c)[16][8]) {
  alignas(64) float column[kMmaColumns][kMmaRows];
  for (int m = 0; m < kMmaRows; ++m)
    for (int n = 0; n < kMmaColumns; ++n) column[n][m] = c[m][n];
  const int blocks = rules.k / 16;
  for (std::int64_t i = 0; i < instructions; ++i, a += blocks, b += blocks)
    for (int n = 0; n < kMmaColumns; ++n) {
      alignas(64) float sum[kMmaRows] = {};
      float* d = rules.c_last ? sum : column[n];
      for (int place = 0; place < rules.k; place += kProducts)
        fused_step<kProducts>(rules, a + place / 16, b + place / 16, place % 16 / 2, n, d);
      if (rules.c_last)
        for (int m = 0; m < kMmaRows; m += kWidth) {
          const F32 x = load<F32>(column[n] + m) + load<F32>(sum + m);
          store(column[n] + m, select(as<U32>(x == x), as<U32>(x), U32{} + 0x7fffffffu));
        }
    }
  for (int m = 0; m < kMmaRows; ++m)
    for (int n = 0; n < kMmaColumns; ++n) c[m][n] = column[n][m];
}

void chain(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b, std::int64_t instructions,
           float (&c)[16][8]) {
  switch (rules.products) {
    case 8:
      return chain_of<8>(rules, a, b, instructions, c);
    case 16:
      return chain_of<16>(rules, a, b, instructions, c);
    default:
      return chain_of<32>(rules, a, b, instructions, c);
  }
}

}  // namespace
}  // namespace mlacheck::detail
