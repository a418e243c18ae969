#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "reference/arithmetic/tensor_core.h"
#include "reference/arithmetic/tensor_core_slow.h"
#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

// Instructions and tiles for the tests and the benchmark of the tensor-core step.
namespace mlacheck::testing {

inline constexpr Mma kAllMma[] = {
    {DType::f16, Lowering::hmma16_f25},  {DType::f16, Lowering::hmma8_f24},
    {DType::bf16, Lowering::hmma16_f25}, {DType::bf16, Lowering::hmma8_f24},
    {DType::e4m3, Lowering::qmma32_f25}, {DType::e4m3, Lowering::fp8_emulated_sm90},
    {DType::e4m3, Lowering::qmma16_f13},
};

inline std::string test_name_of(Mma mma) {
  return std::string(name_of(mma.element)) + "_" + std::string(name_of(mma.lowering));
}

// An instruction's operands of any element type: the first K columns of a, and rows of b, count.
struct MmaTile {
  std::uint16_t a[16][32];
  std::uint16_t b[32][8];
  float c[16][8];
};

struct MmaResult {
  float d[16][8];
};

inline int count_differences(const MmaResult& x, const MmaResult& y) {
  int count = 0;
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n)
      count += std::bit_cast<std::uint32_t>(x.d[m][n]) != std::bit_cast<std::uint32_t>(y.d[m][n]);
  return count;
}

namespace detail {

template <class Bits, int kK, class Instruction>
MmaResult run_instruction(Mma mma, const MmaTile& tile, Instruction* instruction) {
  Bits a[16][kK];
  Bits b[kK][8];
  for (int k = 0; k < kK; ++k) {
    for (int m = 0; m < 16; ++m) a[m][k] = static_cast<Bits>(tile.a[m][k]);
    for (int n = 0; n < 8; ++n) b[k][n] = static_cast<Bits>(tile.b[k][n]);
  }
  MmaResult result;
  instruction(mma, a, b, tile.c, result.d);
  return result;
}

}  // namespace detail

inline MmaResult run_fast(Mma mma, const MmaTile& tile) {
  return mma_k(mma) == 16 ? detail::run_instruction<std::uint16_t, 16>(mma, tile, mma_m16n8k16)
                          : detail::run_instruction<std::uint8_t, 32>(mma, tile, mma_m16n8k32);
}

inline MmaResult run_slow(Mma mma, const MmaTile& tile) {
  return mma_k(mma) == 16 ? detail::run_instruction<std::uint16_t, 16>(mma, tile, mma_m16n8k16_slow)
                          : detail::run_instruction<std::uint8_t, 32>(mma, tile, mma_m16n8k32_slow);
}

// The integer model under rules of the test's own. `element` is that of the tile.
inline MmaResult run_model(const mlacheck::detail::SlowRules& rules, DType element,
                           const MmaTile& tile) {
  const bool unpack =
      element == DType::e4m3 && rules.format.fraction_bits != mlacheck::detail::kE4m3.fraction_bits;
  const auto adder_bits = [&](std::uint16_t bits) {
    return unpack ? mlacheck::detail::f16_bits_of_e4m3(static_cast<std::uint8_t>(bits)) : bits;
  };
  MmaResult result;
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      std::uint16_t row[32];
      std::uint16_t column[32];
      for (int k = 0; k < rules.k; ++k) {
        row[k] = adder_bits(tile.a[m][k]);
        column[k] = adder_bits(tile.b[k][n]);
      }
      result.d[m][n] = mlacheck::detail::mma_slow(rules, row, column, tile.c[m][n]);
    }
  return result;
}

// Nearest element of the type.
inline std::uint16_t element_bits(DType element, float value) {
  switch (element) {
    case DType::f16:
      return to_f16(value).bits;
    case DType::bf16:
      return to_bf16(value).bits;
    default:
      return to_e4m3_saturating(value).bits;
  }
}

enum class Fill { normal, wide, raw, subnormal, cancelling, sparse, largest, special };
inline constexpr Fill kFills[] = {Fill::normal,     Fill::wide,   Fill::raw,     Fill::subnormal,
                                  Fill::cancelling, Fill::sparse, Fill::largest, Fill::special};

class TileGenerator {
 public:
  TileGenerator(DType element, unsigned seed) : element_(element), engine_(seed) {}

  MmaTile make(Fill fill) {
    MmaTile tile;
    for (int k = 0; k < 32; ++k) {
      for (int m = 0; m < 16; ++m) tile.a[m][k] = make_element(fill);
      for (int n = 0; n < 8; ++n) tile.b[k][n] = make_element(fill);
    }
    if (fill == Fill::cancelling) cancel(tile);
    for (auto& row : tile.c)
      for (float& c : row) c = make_accumulator(fill);
    return tile;
  }

  std::uint16_t make_element(Fill fill) {
    const bool byte = element_ == DType::e4m3;
    const auto raw = static_cast<std::uint16_t>(random() & (byte ? 0xffu : 0xffffu));
    const int reach = byte ? 6 : element_ == DType::f16 ? 12 : 100;
    switch (fill) {
      case Fill::normal:
      case Fill::cancelling:
        return element_bits(element_, normal());
      case Fill::wide:
        return element_bits(element_, std::ldexp(normal(), between(-reach, reach)));
      case Fill::raw:
        return raw;
      case Fill::subnormal:  // fields 0 and 1
        return raw & (byte ? 0x8fu : element_ == DType::f16 ? 0x87ffu : 0x80ffu);
      case Fill::sparse:
        return random() % 4 != 0
                   ? raw & (byte ? 0x80u : 0x8000u)
                   : element_bits(element_, std::ldexp(normal(), between(-reach, reach)));
      case Fill::largest: {
        const float top = byte ? 448.0f : element_ == DType::f16 ? 65504.0f : 0x1.fep60f;
        return element_bits(element_, random() % 2 != 0 ? top : top * -0.93f);
      }
      case Fill::special:
        return random() % 100 == 0  ? raw | (byte                     ? 0x7fu
                                             : element_ == DType::f16 ? 0x7c00u
                                                                      : 0x7f80u)
               : random() % 30 == 0 ? raw & (byte ? 0x80u : 0x8000u)
                                    : element_bits(element_, normal());
    }
    return 0;
  }

  float make_accumulator(Fill fill) {
    switch (fill) {
      case Fill::normal:
        return normal();
      case Fill::wide:
        return std::ldexp(normal(), between(-40, 40));
      case Fill::raw:
        return std::bit_cast<float>(random());
      case Fill::subnormal:
        return random() % 3 == 0   ? std::bit_cast<float>(random() & 0x80ffffffu)
               : random() % 2 == 0 ? std::ldexp(normal(), between(-60, -20))
                                   : 0.0f;
      case Fill::cancelling:
        return std::ldexp(normal(), between(-24, 0));
      case Fill::sparse:
        return random() % 2 != 0 ? std::bit_cast<float>(random() & 0x80000000u)
                                 : std::ldexp(normal(), between(-140, 20));
      case Fill::largest:
        return std::ldexp(normal(), between(0, 127));
      case Fill::special:
        return random() % 100 == 0 ? std::bit_cast<float>(random() | 0x7f800000u) : normal();
    }
    return 0;
  }

 private:
  std::uint32_t random() { return static_cast<std::uint32_t>(engine_()); }
  float normal() { return normal_(engine_); }

  int between(int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  }

  // Every other product undoes its neighbour, up to one unit in the last place of some.
  void cancel(MmaTile& tile) {
    const std::uint16_t sign = element_ == DType::e4m3 ? 0x80 : 0x8000;
    for (int k = 0; k < 32; k += 2) {
      for (int m = 0; m < 16; ++m)
        tile.a[m][k + 1] = static_cast<std::uint16_t>(tile.a[m][k] ^ (random() % 4 == 0 ? 1u : 0u));
      for (int n = 0; n < 8; ++n) tile.b[k + 1][n] = tile.b[k][n] ^ sign;
    }
  }

  DType element_;
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

}  // namespace mlacheck::testing
