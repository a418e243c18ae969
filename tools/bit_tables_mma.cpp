#include "tools/bit_tables_mma.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "fixtures/counter_random.h"
#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

namespace mlacheck {
namespace {

constexpr std::int64_t kRows = 200, kColumns = 60;  // neither a multiple of the tile's

// A format in what the fills need.
struct Element {
  std::uint32_t (*encode)(float x);
  std::uint32_t sign, special, subnormals;  // masks: the sign, a NaN or Inf, fields 0 and 1
  float largest;                            // whose products' sum overflows fp32, if any does
  int reach;                                // magnitudes from 2^-reach to 2^reach
};

Element element_of(DType dtype) {
  if (dtype == DType::f16)
    return {
        [](float x) { return std::uint32_t{to_f16(x).bits}; }, 0x8000, 0x7c00, 0x87ff, 65504, 12};
  if (dtype == DType::bf16)
    return {[](float x) { return std::uint32_t{to_bf16(x).bits}; },
            0x8000,
            0x7f80,
            0x80ff,
            0x1.fep62f,
            100};
  return {
      [](float x) { return std::uint32_t{to_e4m3_saturating(x).bits}; }, 0x80, 0x7f, 0x8f, 448, 6};
}

class Operands {
 public:
  Operands(Mma mma, MmaFill fill)
      : element_(element_of(mma.element)),
        fill_(fill),
        random_(1, fmt::format("mma.{}", name_of(fill))) {}

  std::uint32_t value() {
    const std::uint32_t raw = static_cast<std::uint32_t>(random_.bits(next_++) >> 32);
    const float normal = random_.normal(next_++);
    switch (fill_) {
      case MmaFill::tiny:
        return raw & (raw >> 31 != 0 ? element_.sign : element_.subnormals);
      case MmaFill::wide:
        return element_.encode(std::ldexp(normal, between(element_.reach)));
      case MmaFill::large:
        return element_.encode(raw % 2 != 0 ? element_.largest : element_.largest * -0.93f);
      case MmaFill::special:
        if (raw >> 16 < 600)  // Inf, NaN or a zero; bit 0 and the sign are random
          return (raw & 2u) != 0 ? element_.special | (raw & (element_.sign | 1u))
                                 : raw & element_.sign;
        return element_.encode(normal);
      case MmaFill::normal:
      case MmaFill::cancelling:
      case MmaFill::chain:
        return element_.encode(normal);
    }
    return 0;
  }

  float accumulator() {
    const std::uint64_t bits = random_.bits(next_++);
    const float normal = random_.normal(next_++);
    switch (fill_) {
      case MmaFill::tiny:
        return bits % 2 != 0
                   ? std::ldexp(normal, -40 - between(40))
                   : std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32) & 0x80ffffffu);
      case MmaFill::wide:
        return std::ldexp(normal, between(100));
      case MmaFill::large:
        return std::ldexp(normal, 120 + between(6));
      case MmaFill::special:
        return bits % 200 == 0
                   ? std::bit_cast<float>(0x7f800000u |
                                          static_cast<std::uint32_t>(bits >> 32 & 0x80000001u))
                   : normal;
      case MmaFill::normal:
      case MmaFill::cancelling:
      case MmaFill::chain:
        return normal;
    }
    return 0;
  }

  std::uint32_t sign() const { return element_.sign; }

 private:
  int between(int reach) {
    const auto count = 2 * static_cast<std::uint64_t>(reach) + 1;
    return static_cast<int>(random_.below(next_++, count)) - reach;
  }

  Element element_;
  MmaFill fill_;
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

template <class Bits>
std::vector<float> results(Mma mma, MmaFill fill) {
  const std::int64_t k = mma_k(mma) * (fill == MmaFill::chain ? 4 : 1);
  Operands operands(mma, fill);
  std::vector<Bits> a(static_cast<std::size_t>(kRows * k));
  std::vector<Bits> b(static_cast<std::size_t>(k * kColumns));
  std::vector<float> c(static_cast<std::size_t>(kRows * kColumns));
  for (Bits& x : a) x = static_cast<Bits>(operands.value());
  for (Bits& x : b) x = static_cast<Bits>(operands.value());
  for (float& x : c) x = operands.accumulator();
  if (fill == MmaFill::cancelling) {
    // a[m, 2i + 1] = a[m, 2i] up to a last place, b[2i + 1, n] = -b[2i, n].
    for (std::size_t i = 0; i < a.size(); i += 2) a[i + 1] = static_cast<Bits>(a[i] ^ (i % 3 == 0));
    for (std::int64_t i = 0; i < k; i += 2)
      for (std::int64_t n = 0; n < kColumns; ++n)
        b[static_cast<std::size_t>((i + 1) * kColumns + n)] =
            static_cast<Bits>(b[static_cast<std::size_t>(i * kColumns + n)] ^ operands.sign());
    for (float& x : c) x = std::ldexp(x, -20);
  }
  mma_accumulate(MmaA(mma, a.data(), kRows, k, k), MmaB(mma, b.data(), k, kColumns, kColumns),
                 c.data(), kColumns);
  return c;
}

}  // namespace

std::string_view name_of(MmaFill fill) {
  switch (fill) {
    case MmaFill::normal:
      return "normal";
    case MmaFill::wide:
      return "wide";
    case MmaFill::tiny:
      return "tiny";
    case MmaFill::large:
      return "large";
    case MmaFill::special:
      return "special";
    case MmaFill::cancelling:
      return "cancelling";
    case MmaFill::chain:
      return "chain";
  }
  return "?";
}

std::vector<float> mma_results(Mma mma, MmaFill fill) {
  return mma.element == DType::e4m3 ? results<std::uint8_t>(mma, fill)
                                    : results<std::uint16_t>(mma, fill);
}

}  // namespace mlacheck
