// How visible a wrong parameter is in ordinary data: the share of outputs that differ from the
// right model, N(0, 1) operands and C. The shares are those that a study of 20,000 dot products
// found, so they also pin the models.
#include <gtest/gtest.h>

#include <functional>

#include "reference/arithmetic/tensor_core_cases.h"

namespace mlacheck {
namespace {

using detail::SlowRules;

struct Mutant {
  const char* name;
  Mma mma;
  std::function<void(SlowRules&)> change;
  double share;
};

double share_of_differences(const Mutant& mutant, bool with_c) {
  constexpr int kTiles = 80;
  const SlowRules right{detail::rules_of(mutant.mma)};
  SlowRules wrong = right;
  mutant.change(wrong);
  testing::TileGenerator generator(mutant.mma.element, 4);
  int differences = 0;
  for (int i = 0; i < kTiles; ++i) {
    testing::MmaTile tile = generator.make(testing::Fill::normal);
    if (!with_c) std::memset(tile.c, 0, sizeof tile.c);
    differences += testing::count_differences(testing::run_model(right, mutant.mma.element, tile),
                                              testing::run_model(wrong, mutant.mma.element, tile));
  }
  return differences / (kTiles * 128.0);
}

TEST(TensorCoreMutants, ShareOfOutputsThatDiffer) {
  const Mma f16{DType::f16, Lowering::hmma16_f25};
  const Mma bf16{DType::bf16, Lowering::hmma16_f25};
  const Mma e4m3{DType::e4m3, Lowering::qmma32_f25};
  const auto f24 = [](SlowRules& r) { r.fraction_bits = 24; };
  const auto f26 = [](SlowRules& r) { r.fraction_bits = 26; };
  const auto half = [](SlowRules& r) { r.products /= 2; };
  const auto nearest = [](SlowRules& r) { r.round_to_nearest = true; };
  const auto f13 = [](SlowRules& r) { r.fraction_bits = r.result_fraction_bits = 13; };
  const auto emulated = [](SlowRules& r) {
    r = {detail::rules_of({DType::e4m3, Lowering::fp8_emulated_sm90})};
  };
  const Mutant mutants[] = {
      {"f16 F24", f16, f24, 0.235},
      {"f16 F26", f16, f26, 0.107},
      {"f16 half L", f16, half, 0.315},
      {"f16 nearest", f16, nearest, 0.348},
      {"bf16 F24", bf16, f24, 0.080},
      {"bf16 F26", bf16, f26, 0.030},
      {"bf16 half L", bf16, half, 0.163},
      {"bf16 nearest", bf16, nearest, 0.285},
      {"e4m3 F24", e4m3, f24, 0.088},
      {"e4m3 F26", e4m3, f26, 0.033},
      {"e4m3 half L", e4m3, half, 0.174},
      {"e4m3 nearest", e4m3, nearest, 0.308},
      {"e4m3 emulated", e4m3, emulated, 0.33},
      {"e4m3 F13", e4m3, f13, 0.999},
  };
  for (const Mutant& mutant : mutants)
    EXPECT_NEAR(share_of_differences(mutant, true), mutant.share, 0.02) << mutant.name;

  // Without C an e4m3 sum is exact in 24 bits, so that only F = 13 shows.
  EXPECT_EQ(share_of_differences({"", e4m3, f24, 0}, false), 0);
  EXPECT_EQ(share_of_differences({"", e4m3, nearest, 0}, false), 0);
  EXPECT_NEAR(share_of_differences({"", e4m3, f13, 0}, false), 0.63, 0.02);
}

}  // namespace
}  // namespace mlacheck
