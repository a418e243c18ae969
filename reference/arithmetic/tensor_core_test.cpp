// The fast form against the integer model, on every variant that this CPU runs.
#include "reference/arithmetic/tensor_core.h"
#include "reference/arithmetic/instruction_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/arithmetic/tensor_core_cases.h"

namespace mlacheck {
namespace {

using testing::Fill;
using testing::MmaResult;
using testing::MmaTile;

// Restores the variant in use.
class UseIsa {
 public:
  explicit UseIsa(InstructionSet isa) : before_(instruction_set()) { use_instruction_set(isa); }
  ~UseIsa() { use_instruction_set(before_); }
  UseIsa(const UseIsa&) = delete;
  UseIsa& operator=(const UseIsa&) = delete;

 private:
  InstructionSet before_;
};

class TensorCore : public ::testing::TestWithParam<Mma> {};
INSTANTIATE_TEST_SUITE_P(All, TensorCore, ::testing::ValuesIn(testing::kAllMma),
                         [](const auto& param) { return testing::test_name_of(param.param); });

// 7 instructions x 8 fills x 40 tiles x 4 links x 128 outputs = 1.1e6. The accumulator of a link is
// the result before.
TEST_P(TensorCore, EqualsTheIntegerModel) {
  const Mma mma = GetParam();
  testing::TileGenerator generator(mma.element, 1);
  for (Fill fill : testing::kFills)
    for (int repeat = 0; repeat < 40; ++repeat) {
      MmaTile tile = generator.make(fill);
      for (int link = 0; link < 4; ++link) {
        const MmaResult expected = testing::run_slow(mma, tile);
        for (InstructionSet isa : instruction_sets()) {
          const UseIsa use(isa);
          ASSERT_EQ(testing::count_differences(testing::run_fast(mma, tile), expected), 0)
              << name_of(isa) << ", fill " << static_cast<int>(fill) << ", tile " << repeat
              << ", link " << link;
        }
        const MmaTile next = generator.make(fill);
        std::memcpy(tile.a, next.a, sizeof tile.a);
        std::memcpy(tile.b, next.b, sizeof tile.b);
        std::memcpy(tile.c, expected.d, sizeof tile.c);
      }
    }
}

template <class Bits>
void check_whole_product(Mma mma, int rows, int columns, int k, Fill fill) {
  testing::TileGenerator generator(mma.element, 2);
  const int a_stride = k + 3;
  const int b_stride = columns + 5;
  const int c_stride = columns + 1;
  std::vector<Bits> a(static_cast<std::size_t>(rows * a_stride));
  std::vector<Bits> b(static_cast<std::size_t>(k * b_stride));
  std::vector<float> c(static_cast<std::size_t>(rows * c_stride));
  for (Bits& x : a) x = static_cast<Bits>(generator.make_element(fill));
  for (Bits& x : b) x = static_cast<Bits>(generator.make_element(fill));
  for (float& x : c) x = generator.make_accumulator(fill);

  std::vector<float> expected = c;
  for (int m = 0; m < rows; ++m)
    for (int n = 0; n < columns; ++n)
      for (int first = 0; first < k; first += mma_k(mma)) {
        std::uint16_t row[32];
        std::uint16_t column[32];
        for (int i = 0; i < mma_k(mma); ++i) {
          row[i] = a[static_cast<std::size_t>(m * a_stride + first + i)];
          column[i] = b[static_cast<std::size_t>((first + i) * b_stride + n)];
        }
        float& d = expected[static_cast<std::size_t>(m * c_stride + n)];
        d = mma_slow(mma, row, column, d);
      }
  for (InstructionSet isa : instruction_sets()) {
    const UseIsa use(isa);
    std::vector<float> d = c;
    mma_accumulate(MmaA(mma, a.data(), rows, k, a_stride),
                   MmaB(mma, b.data(), k, columns, b_stride), d.data(), c_stride);
    for (std::size_t i = 0; i < d.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(d[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << name_of(isa) << ", " << rows << " x " << columns << " x " << k << ", place " << i;
  }
}

// Edges smaller than a tile, the columns beyond C's own untouched.
TEST_P(TensorCore, WholeProductIsAChainOfInstructions) {
  const Mma mma = GetParam();
  const int shapes[][3] = {{1, 1, 32}, {16, 8, 64}, {37, 19, 96}, {5, 8, 0}, {0, 3, 32}};
  for (const auto& [rows, columns, k] : shapes)
    for (Fill fill : {Fill::normal, Fill::special}) {
      if (mma.element == DType::e4m3)
        check_whole_product<std::uint8_t>(mma, rows, columns, k, fill);
      else
        check_whole_product<std::uint16_t>(mma, rows, columns, k, fill);
    }
}

TEST_P(TensorCore, AccumulatesInPlace) {
  const Mma mma = GetParam();
  const MmaTile tile = testing::TileGenerator(mma.element, 3).make(Fill::normal);
  MmaResult in_place;
  std::memcpy(in_place.d, tile.c, sizeof in_place.d);
  if (mma_k(mma) == 16) {
    std::uint16_t a[16][16];
    std::uint16_t b[16][8];
    for (int m = 0; m < 16; ++m) std::copy_n(tile.a[m], 16, a[m]);
    std::memcpy(b, tile.b, sizeof b);
    mma_m16n8k16(mma, a, b, in_place.d, in_place.d);
  } else {
    std::uint8_t a[16][32];
    std::uint8_t b[32][8];
    for (int m = 0; m < 16; ++m) std::copy_n(tile.a[m], 32, a[m]);
    for (int k = 0; k < 32; ++k) std::copy_n(tile.b[k], 8, b[k]);
    mma_m16n8k32(mma, a, b, in_place.d, in_place.d);
  }
  EXPECT_EQ(testing::count_differences(in_place, testing::run_fast(mma, tile)), 0);
}

TEST(TensorCoreErrors, LoweringDoesNotTakeTheElement) {
  EXPECT_THROW(mma_k({DType::e4m3, Lowering::hmma16_f25}), std::invalid_argument);
  EXPECT_THROW(mma_k({DType::f16, Lowering::qmma32_f25}), std::invalid_argument);
  EXPECT_THROW(mma_k({DType::f32, Lowering::hmma8_f24}), std::invalid_argument);
  const auto refusal = [](Mma mma) -> std::string {
    try {
      mma_k(mma);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({DType::bf16, Lowering::fp8_emulated_sm90}),
            "mma: lowering fp8_emulated_sm90 takes e4m3, got bf16");
  EXPECT_EQ(refusal({DType::f32, Lowering::qmma16_f13}),
            "mma: lowering qmma16_f13 takes e4m3, got f32");
  EXPECT_EQ(refusal({DType::f32, Lowering::hmma8_f24}),
            "mma: lowering hmma8_f24 takes f16 or bf16, got f32");
}

TEST(TensorCoreErrors, OperandsDoNotFitTheInstruction) {
  constexpr Mma kF16{DType::f16, Lowering::hmma16_f25};
  constexpr Mma kE4m3{DType::e4m3, Lowering::qmma32_f25};
  const std::vector<std::uint16_t> wide(64 * 64);
  const std::vector<std::uint8_t> narrow(64 * 64);
  const MmaTile tile{};
  EXPECT_THROW((testing::detail::run_instruction<std::uint16_t, 16>(kE4m3, tile, mma_m16n8k16)),
               std::invalid_argument);
  EXPECT_THROW((testing::detail::run_instruction<std::uint8_t, 32>(kF16, tile, mma_m16n8k32)),
               std::invalid_argument);
  EXPECT_THROW(MmaA(kF16, narrow.data(), 16, 16, 16), std::invalid_argument);
  EXPECT_THROW(MmaA(kF16, wide.data(), 16, 24, 24), std::invalid_argument);
  EXPECT_THROW(MmaA(kE4m3, narrow.data(), 16, 16, 16), std::invalid_argument);
  EXPECT_THROW(MmaB(kF16, wide.data(), 16, -1, 16), std::invalid_argument);
  float c[16 * 8] = {};
  EXPECT_THROW(
      mma_accumulate(MmaA(kF16, wide.data(), 16, 32, 32), MmaB(kF16, wide.data(), 16, 8, 8), c, 8),
      std::invalid_argument);
  EXPECT_THROW(
      mma_accumulate(MmaA(kF16, wide.data(), 16, 32, 32),
                     MmaB({DType::bf16, Lowering::hmma16_f25}, wide.data(), 32, 8, 8), c, 8),
      std::invalid_argument);
}

TEST(InstructionSet, EveryListedVariantCanBeForced) {
  const std::vector<InstructionSet> isas = instruction_sets();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), InstructionSet::portable);
  EXPECT_EQ(instruction_set(), isas.back());
  for (InstructionSet isa : isas) {
    const UseIsa use(isa);
    EXPECT_EQ(instruction_set(), isa) << name_of(isa);
  }
  for (InstructionSet isa :
       {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512}) {
    if (std::find(isas.begin(), isas.end(), isa) != isas.end()) continue;
    EXPECT_THROW(use_instruction_set(isa), std::invalid_argument) << name_of(isa);
  }
}

}  // namespace
}  // namespace mlacheck
