// Hand-made vectors that tell the lowerings, and their near relatives, apart: one output each. U =
// 2^14 = 2^7 * 2^7.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/tensor_core_cases.h"

namespace mlacheck {
namespace {

using detail::SlowRules;
using testing::MmaTile;

// One row of A and column of B as numbers, and C.
struct Vector {
  explicit Vector(int k) : a(static_cast<std::size_t>(k)), b(static_cast<std::size_t>(k)) {}
  Vector& set(int k, float x, float y) {
    a[static_cast<std::size_t>(k)] = x;
    b[static_cast<std::size_t>(k)] = y;
    return *this;
  }
  Vector& plus(float x) {
    c = x;
    return *this;
  }
  std::vector<float> a;
  std::vector<float> b;
  float c = 0;
};

constexpr float kRoot = 0x1p7f;       // of U
constexpr float kSmall = 0x1.8p-11f;  // 3/4 of 2^-10, in steps of 2^-11 = U * 2^-25

Vector vector_number(int number, int k) {
  Vector v(k);
  switch (number) {
    case 1:
      return v.set(0, kRoot, kRoot).set(1, -kRoot, kRoot).plus(kSmall);
    case 2:
      return v.set(0, kRoot, kRoot).set(1, -kRoot, kRoot).plus(-kSmall);
    case 3:
      return v.set(0, kRoot, kRoot).set(k / 2, -kRoot, kRoot).plus(kSmall);
    case 4:
      return v.set(0, kRoot, kRoot).set(2, -kRoot, kRoot).plus(kSmall);
    case 5:
      return v.set(0, kRoot, kRoot).set(1, 0x1.8p-5f, 0x1p-5f);
    case 6:
      for (int i = 0; i < k; ++i) v.set(i, 0x1p-6f, 0x1p-6f);
      return v.plus(0x1p14f);
    case 7:
      return v.set(0, 1.5f * kRoot, 1.5f * kRoot).set(1, -1.5f * kRoot, 1.5f * kRoot).plus(kSmall);
    case 8:
      for (int i = 1; i < k; ++i) v.set(i, 0x1p-6f, 0x1p-6f);
      return v.set(0, -kRoot, kRoot).plus(0x1p14f);
    case 9:
      return v.set(0, -0x1p-6f, 0x1p-5f).plus(0x1.000002p14f);
    case 10:
      return v.set(0, kRoot, kRoot).set(k - 1, -kRoot, kRoot).set(1, 0x1.8p-6f, 0x1p-5f);
    default:  // 11: which half of the emulation runs first
      return v.set(0, kRoot, kRoot).set(2, -kRoot, kRoot).set(1, 0x1.8p-6f, 0x1p-5f);
  }
}

// The vector in output [0][0].
MmaTile tile_of(DType element, const Vector& v) {
  MmaTile tile{};
  for (std::size_t k = 0; k < v.a.size(); ++k) {
    tile.a[0][k] = testing::element_bits(element, v.a[k]);
    tile.b[k][0] = testing::element_bits(element, v.b[k]);
  }
  tile.c[0][0] = v.c;
  return tile;
}

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::uint32_t word(const SlowRules& rules, DType element, const Vector& v) {
  return bits_of(testing::run_model(rules, element, tile_of(element, v)).d[0][0]);
}

// Words for V1 ... V11.
using Words = std::vector<std::uint32_t>;

void expect_words(const std::string& name, const SlowRules& rules, DType element,
                  const Words& words) {
  for (int i = 1; i <= 11; ++i)
    EXPECT_EQ(word(rules, element, vector_number(i, rules.k)),
              words[static_cast<std::size_t>(i - 1)])
        << name << ", V" << i;
}

// The instruction itself, slow and fast on every variant.
void expect_instruction(Mma mma, const Words& words) {
  const InstructionSet before = instruction_set();
  for (int i = 1; i <= 11; ++i) {
    const MmaTile tile = tile_of(mma.element, vector_number(i, mma_k(mma)));
    const std::uint32_t expected = words[static_cast<std::size_t>(i - 1)];
    EXPECT_EQ(bits_of(testing::run_slow(mma, tile).d[0][0]), expected) << "slow, V" << i;
    for (InstructionSet isa : instruction_sets()) {
      use_instruction_set(isa);
      EXPECT_EQ(bits_of(testing::run_fast(mma, tile).d[0][0]), expected)
          << name_of(isa) << ", V" << i;
    }
  }
  use_instruction_set(before);
}

constexpr std::uint32_t kP = 0x3a000000;  // 2^-11: kSmall cut by F = 25
constexpr std::uint32_t kM = 0xba000000;
constexpr std::uint32_t kAll = 0x3a400000;  // kSmall whole
constexpr std::uint32_t kU = 0x46800000;
constexpr std::uint32_t kU1 = 0x46800001;
constexpr std::uint32_t kU4 = 0x46800004;

const Words kHmma16{kP, kM, kP, kP, kU, kU, kP, 0, kU, kP, kP};
const Words kHmma8{0, 0, 0, 0, kU, kU, 0, 0x3b000000, kU1, 0, 0};
const Words kQmma32{kP, kM, kP, kP, kU, kU, kP, 0, kU, kP, kP};
const Words kEmulated{kAll, 0xba400000, kAll, kAll, kU, kU4, kAll, 0, kU1, 0, 0};
const Words kQmma16F13{0, 0, 0, 0, kU, kU, 0, 0x3b800000, kU, 0, 0};

class Fingerprint : public ::testing::TestWithParam<std::pair<Mma, Words>> {};
INSTANTIATE_TEST_SUITE_P(
    All, Fingerprint,
    ::testing::Values(std::pair{Mma{DType::f16, Lowering::hmma16_f25}, kHmma16},
                      std::pair{Mma{DType::bf16, Lowering::hmma16_f25}, kHmma16},
                      std::pair{Mma{DType::f16, Lowering::hmma8_f24}, kHmma8},
                      std::pair{Mma{DType::bf16, Lowering::hmma8_f24}, kHmma8},
                      std::pair{Mma{DType::e4m3, Lowering::qmma32_f25}, kQmma32},
                      std::pair{Mma{DType::e4m3, Lowering::fp8_emulated_sm90}, kEmulated},
                      std::pair{Mma{DType::e4m3, Lowering::qmma16_f13}, kQmma16F13}),
    [](const auto& param) { return testing::test_name_of(param.param.first); });

TEST_P(Fingerprint, Words) { expect_instruction(GetParam().first, GetParam().second); }

// C = U * 2^-j beside U - U: the largest j that leaves a trace is F. With C added last, every j
// does.
TEST_P(Fingerprint, DepthOfAlignmentIsF) {
  const Mma mma = GetParam().first;
  const SlowRules rules{detail::rules_of(mma)};
  int depth = 0;
  for (int j = 1; j <= 40; ++j) {
    Vector v = vector_number(1, rules.k);
    v.plus(std::ldexp(0x1p14f, -j));
    if (bits_of(testing::run_fast(mma, tile_of(mma.element, v)).d[0][0]) != 0) depth = j;
  }
  EXPECT_EQ(depth, rules.c_last ? 40 : rules.fraction_bits);
}

// The same words under rules that no chip has: each differs from the right ones somewhere.
TEST(FingerprintOfWrongModels, E4m3) {
  const SlowRules right{detail::rules_of({DType::e4m3, Lowering::qmma32_f25})};
  const auto check = [&](const std::string& name, auto change, const Words& words) {
    SlowRules rules = right;
    change(rules);
    expect_words(name, rules, DType::e4m3, words);
    EXPECT_NE(words, kQmma32) << name;
  };
  check("2 x L16", [](SlowRules& r) { r.products = 16; },
        {kP, kM, 0, kP, kU, kU, kP, 0x3b800000, kU, 0, kP});
  check("F13", [](SlowRules& r) { r.fraction_bits = r.result_fraction_bits = 13; },
        {0, 0, 0, 0, kU, kU, 0, 0, kU, 0, 0});
  check("F24", [](SlowRules& r) { r.fraction_bits = 24; }, {0, 0, 0, 0, kU, kU, 0, 0, kU1, 0, 0});
  check("F26", [](SlowRules& r) { r.fraction_bits = 26; },
        {kAll, 0xba400000, kAll, kAll, kU, kU4, kAll, 0x3bf80000, kU, kAll, kAll});
  check("nearest", [](SlowRules& r) { r.round_to_nearest = true; },
        {kP, kM, kP, kP, kU1, kU, kP, 0, kU1, kP, kP});
  check("late C", [](SlowRules& r) { r.c_last = true; },
        {kAll, 0xba400000, kAll, kAll, kU, kU4, kAll, 0, kU1, kP, kP});
  check("normalised", [](SlowRules& r) { r.normalise_products = true; },
        {kP, kM, kP, kP, kU, kU, 0, 0, kU, kP, kP});
  check("floor", [](SlowRules& r) { r.align_toward_minus = true; },
        {kP, 0xba800000, kP, kP, kU, kU, kP, 0, kU, kP, kP});
}

TEST(FingerprintOfWrongModels, F16) {
  const SlowRules right{detail::rules_of({DType::f16, Lowering::hmma16_f25})};
  const auto check = [&](const std::string& name, auto change, const Words& words) {
    SlowRules rules = right;
    change(rules);
    expect_words(name, rules, DType::f16, words);
    EXPECT_NE(words, kHmma16) << name;
  };
  check("L8", [](SlowRules& r) { r.products = 8; },
        {kP, kM, 0, kP, kU, kU, kP, 0x3b000000, kU, 0, kP});
  check("F24", [](SlowRules& r) { r.fraction_bits = 24; }, {0, 0, 0, 0, kU, kU, 0, 0, kU1, 0, 0});
  check("nearest", [](SlowRules& r) { r.round_to_nearest = true; },
        {kP, kM, kP, kP, kU1, kU, kP, 0, kU1, kP, kP});
  check("late C", [](SlowRules& r) { r.c_last = true; },
        {kAll, 0xba400000, kAll, kAll, kU, 0x46800002, kAll, 0, kU1, kP, kP});
}

// V11 with the two halves exchanged: had {2, 3} run first, V11 would have given 2^-11.
TEST(FingerprintOfWrongModels, OrderOfTheEmulation) {
  const Mma mma{DType::e4m3, Lowering::fp8_emulated_sm90};
  MmaTile tile = tile_of(DType::e4m3, vector_number(11, 32));
  for (int k = 0; k < 32; k += 4)
    for (int j = 0; j < 2; ++j) {
      std::swap(tile.a[0][k + j], tile.a[0][k + j + 2]);
      std::swap(tile.b[k + j][0], tile.b[k + j + 2][0]);
    }
  EXPECT_EQ(bits_of(testing::run_fast(mma, tile).d[0][0]), kP);
}

struct Special {
  const char* name;
  DType element;
  std::vector<std::pair<std::uint16_t, std::uint16_t>> pairs;  // the other elements are 0 * 0
  std::uint32_t c;
  std::uint32_t d;
};

// In output [0][0]; every lowering of the element type agrees, except the one with 13 fraction
// bits.
TEST(SpecialValues, OneOutput) {
  const std::uint32_t nan = 0x7fffffff;
  const std::vector<std::pair<std::uint16_t, std::uint16_t>> minus_zeros(16, {0x8000, 0x3c00});
  const Special cases[] = {
      {"overflow is Inf, not the largest number",
       DType::bf16,
       {{0x7f40, 0x3f80}, {0x7f00, 0x3f80}},
       0,
       0x7f800000},
      {"negative overflow", DType::bf16, {{0xff40, 0x3f80}, {0x7f00, 0xbf80}}, 0, 0xff800000},
      {"products beyond 2^128 may cancel",
       DType::bf16,
       {{0x7f00, 0x4080}, {0xff00, 0x4080}},
       0x3f800000,
       0},
      {"Inf", DType::f16, {{0x7c00, 0x3c00}}, 0x3f800000, 0x7f800000},
      {"-Inf", DType::f16, {{0x7c00, 0xbc00}}, 0x3f800000, 0xff800000},
      {"Inf * 0", DType::f16, {{0x7c00, 0x8000}}, 0, nan},
      {"Inf - Inf", DType::f16, {{0x7c00, 0x3c00}, {0xfc00, 0x3c00}}, 0, nan},
      {"Inf - C", DType::f16, {{0x7c00, 0x3c00}}, 0xff800000, nan},
      {"C is Inf", DType::f16, {{0x3c00, 0x3c00}}, 0xff800000, 0xff800000},
      {"NaN", DType::f16, {{0xfe00, 0x3c00}}, 0, nan},
      {"payload of C is lost", DType::f16, {}, 0xff812345, nan},
      {"e4m3 NaN", DType::e4m3, {{0xff, 0x38}}, 0, nan},
      {"payload of C is lost", DType::e4m3, {}, 0x7f812345, nan},
      {"e4m3 and C is Inf", DType::e4m3, {{0x7e, 0x7e}}, 0xff800000, 0xff800000},
      {"subnormal C alone", DType::f16, {}, 0x80000001, 0x80000001},
      {"subnormal C alone", DType::bf16, {}, 0x007fffff, 0x007fffff},
      {"least f16 product", DType::f16, {{0x0001, 0x8001}}, 0, 0xa7800000},
      {"bf16 product at the end of fp32", DType::bf16, {{0x0080, 0x3400}}, 0, 0x00000001},
      {"bf16 product below it", DType::bf16, {{0x0080, 0x3380}}, 0, 0},
      {"all -0", DType::f16, minus_zeros, 0x80000000, 0},
      {"C = -0", DType::f16, {}, 0x80000000, 0},
      {"C = -0", DType::e4m3, {}, 0x80000000, 0},
      {"exact cancellation", DType::f16, {{0x3c00, 0xbc00}}, 0x3f800000, 0},
  };
  const InstructionSet before = instruction_set();
  for (const Special& special : cases)
    for (const Mma mma : testing::kAllMma) {
      if (mma.element != special.element || mma.lowering == Lowering::qmma16_f13) continue;
      MmaTile tile{};
      int k = 0;
      for (const auto& [a, b] : special.pairs) {
        tile.a[0][k] = a;
        tile.b[k++][0] = b;
      }
      tile.c[0][0] = std::bit_cast<float>(special.c);
      EXPECT_EQ(bits_of(testing::run_slow(mma, tile).d[0][0]), special.d)
          << special.name << ", slow, " << testing::test_name_of(mma);
      for (InstructionSet isa : instruction_sets()) {
        use_instruction_set(isa);
        EXPECT_EQ(bits_of(testing::run_fast(mma, tile).d[0][0]), special.d)
            << special.name << ", " << name_of(isa) << ", " << testing::test_name_of(mma);
      }
    }
  use_instruction_set(before);
}

// A zero term counts as 2^-133 (2^-132 at F = 24), so that no product below 2^(-133 - F) is felt:
// 2^-145 - 2^-j is cut to one unit of 2^-149 less while j is at most 133 + 25 (132 + 24).
TEST(SpecialValues, ZeroTermsBoundTheAlignment) {
  for (const auto& [lowering, deepest] :
       {std::pair{Lowering::hmma16_f25, 158}, std::pair{Lowering::hmma8_f24, 156}})
    for (int j = 150; j < 165; ++j) {
      Vector v(16);
      v.set(0, 0x1p-126f, 0x1p-19f).set(1, -0x1p-126f, std::ldexp(1.0f, 126 - j));
      const MmaTile tile = tile_of(DType::bf16, v);
      const std::uint32_t expected = j <= deepest ? 15 : 16;
      EXPECT_EQ(bits_of(testing::run_slow({DType::bf16, lowering}, tile).d[0][0]), expected) << j;
      EXPECT_EQ(bits_of(testing::run_fast({DType::bf16, lowering}, tile).d[0][0]), expected) << j;
    }
}

// The sm_89 form cuts even a C that nothing is added to.
TEST(SpecialValues, ThirteenFractionBits) {
  const Mma mma{DType::e4m3, Lowering::qmma16_f13};
  MmaTile tile{};
  tile.c[0][0] = std::bit_cast<float>(0xbfffffffu);
  tile.c[0][1] = std::bit_cast<float>(0x000007ffu);
  const testing::MmaResult result = testing::run_fast(mma, tile);
  EXPECT_EQ(bits_of(result.d[0][0]), 0xbffffc00u);
  EXPECT_EQ(bits_of(result.d[0][1]), 0x00000400u);
  EXPECT_EQ(testing::count_differences(result, testing::run_slow(mma, tile)), 0);
}

}  // namespace
}  // namespace mlacheck
