#include "reference/layer/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "reference/layer/layer_testing.h"
#include "reference/layer/rope_frequencies.h"

namespace mlacheck {
namespace {

using testing::is_bf16;
using testing::normals;

constexpr std::int64_t kDim = 64;
const std::vector<std::int64_t> kPositions = {0, 1, 2047, 202751, 1048575};

std::vector<float> rotated(std::vector<float> x, const RopeTable& table, std::int64_t row,
                           RopePairing pairing, int roundings) {
  apply_rope(x, table, row, pairing, roundings);
  return x;
}

TEST(RopeFrequencies, StandardIsAGeometricSeries) {
  const std::vector<float> f = rope_frequencies(model_sizes("glm5").rope, kDim);
  ASSERT_EQ(f.size(), 32u);
  for (std::size_t i = 0; i < f.size(); ++i)
    EXPECT_EQ(f[i], static_cast<float>(std::pow(1e6L, -static_cast<long double>(i) / 32))) << i;
}

TEST(RopeFrequencies, YarnKeepsRampsAndInterpolates) {
  const RopeParameters yarn = model_sizes("dsv32").rope;
  const std::vector<float> f = rope_frequencies(yarn, kDim);
  // d(32) = 64 ln(4096 / 64 pi) / (2 ln 10000) = 10.47, d(1) = 22.51: the ramp runs from 10 to 23.
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double plain = std::pow(10000.0, -static_cast<double>(i) / 32);
    const double ramp = i <= 10 ? 0 : i >= 23 ? 1 : (static_cast<double>(i) - 10) / 13;
    EXPECT_FLOAT_EQ(f[i], static_cast<float>(plain * (1 - ramp) + plain / 40 * ramp)) << i;
  }
  EXPECT_NE(f[16], rope_frequencies({.theta = 10000}, kDim)[16]);
}

TEST(RopeFrequencies, YarnsFactorsAreTheValuesWorkedOutByHand) {
  EXPECT_NEAR(yarn_mscale(40, 1), 1.3688879454, 5e-11);
  EXPECT_EQ(yarn_mscale(1, 1), 1);
  RopeParameters yarn = model_sizes("dsv32").rope;
  EXPECT_EQ(rope_attention_factor(yarn), 1.0f);
  yarn.mscale_all_dim = 0;
  EXPECT_EQ(rope_attention_factor(yarn), 1.3688879454f);
  yarn.type = RopeType::standard;
  EXPECT_EQ(rope_attention_factor(yarn), 1.0f);
}

TEST(RopeTable, HoldsCosAndSinOfTheFp32Angle) {
  const RopeParameters rope = model_sizes("glm52").rope;
  const std::vector<float> f = rope_frequencies(rope, kDim);
  const RopeTable exact = rope_table(rope, kDim, kPositions, DType::f32);
  const RopeTable rounded = rope_table(rope, kDim, kPositions, DType::bf16);
  for (std::size_t r = 0; r < kPositions.size(); ++r)
    for (std::size_t i = 0; i < f.size(); ++i) {
      const auto angle = static_cast<long double>(static_cast<float>(kPositions[r]) * f[i]);
      const std::size_t at = r * f.size() + i;
      EXPECT_FLOAT_EQ(exact.cos.data[at], static_cast<float>(std::cos(angle)));
      EXPECT_FLOAT_EQ(exact.sin.data[at], static_cast<float>(std::sin(angle)));
      EXPECT_EQ(rounded.cos.data[at], to_float(to_bf16(exact.cos.data[at])));
      EXPECT_EQ(rounded.sin.data[at], to_float(to_bf16(exact.sin.data[at])));
    }
}

TEST(RopeTable, CarriesYarnsAttentionFactor) {
  RopeParameters yarn = model_sizes("dsv32").rope;
  yarn.mscale_all_dim = 0;
  const RopeTable table = rope_table(yarn, kDim, kPositions, DType::f32);
  EXPECT_EQ(table.cos.data[0], 1.3688879454f);  // position 0
  EXPECT_EQ(table.sin.data[0], 0.0f);
}

TEST(Rope, RotatesThePairsOfEachPairing) {
  const std::vector<float> x = normals(kDim, 1, 1);
  const RopeTable table = rope_table(model_sizes("glm5").rope, kDim, kPositions, DType::f32);
  const std::vector<float> interleaved = rotated(x, table, 2, RopePairing::interleaved, 0);
  const std::vector<float> half_split = rotated(x, table, 2, RopePairing::half_split, 0);
  const auto expect_pair = [&](const std::vector<float>& y, std::size_t i, std::size_t a,
                               std::size_t b) {
    const auto c = static_cast<double>(table.cos.row(2)[i]);
    const auto s = static_cast<double>(table.sin.row(2)[i]);
    const auto xa = static_cast<double>(x[a]);
    const auto xb = static_cast<double>(x[b]);
    EXPECT_NEAR(static_cast<double>(y[a]), xa * c - xb * s, 5e-7);
    EXPECT_NEAR(static_cast<double>(y[b]), xb * c + xa * s, 5e-7);
  };
  for (std::size_t i = 0; i < kDim / 2; ++i) {
    expect_pair(interleaved, i, 2 * i, 2 * i + 1);
    expect_pair(half_split, i, i, i + kDim / 2);
  }
  EXPECT_GT(testing::relative_error(interleaved, half_split), 0.1);
}

TEST(Rope, RoundsWhereItIsAskedTo) {
  std::vector<float> x = normals(kDim, 1, 2);
  for (float& element : x) element = to_float(to_bf16(element));
  const RopeTable table = rope_table(model_sizes("glm5").rope, kDim, kPositions, DType::bf16);
  const std::vector<float> plain = rotated(x, table, 3, RopePairing::interleaved, 0);
  const std::vector<float> once = rotated(x, table, 3, RopePairing::interleaved, 1);
  const std::vector<float> thrice = rotated(x, table, 3, RopePairing::interleaved, 3);
  int differ = 0;
  for (std::size_t i = 0; i < kDim; ++i) {
    EXPECT_EQ(once[i], to_float(to_bf16(plain[i])));
    EXPECT_TRUE(is_bf16(thrice[i]));
    differ += once[i] != thrice[i];
  }
  EXPECT_GT(differ, 10);
  const auto bf16 = [](float v) { return to_float(to_bf16(v)); };
  EXPECT_EQ(thrice[0], bf16(bf16(x[0] * table.cos.row(3)[0]) - bf16(x[1] * table.sin.row(3)[0])));
}

// HF's interleaved RoPE: de-interleave, rotate half-split, leave it so.
TEST(Rope, HfsLayoutIsPutBack) {
  const std::vector<float> x = normals(kDim, 1, 3);
  const RopeTable table = rope_table(model_sizes("glm5").rope, kDim, kPositions, DType::f32);
  std::vector<float> hf(kDim);
  for (std::size_t i = 0; i < kDim / 2; ++i) {
    hf[i] = x[2 * i];
    hf[i + kDim / 2] = x[2 * i + 1];
  }
  apply_rope(hf, table, 2, RopePairing::half_split, 0);
  const std::vector<float> expected = rotated(x, table, 2, RopePairing::interleaved, 0);
  EXPECT_NE(hf, expected);
  reinterleave_from_hf(hf);
  EXPECT_EQ(hf, expected);
}

TEST(Rope, RefusesOtherSizesAndRoundings) {
  const RopeTable table = rope_table(model_sizes("glm5").rope, kDim, kPositions, DType::f32);
  std::vector<float> x(kDim);
  EXPECT_THROW(apply_rope(std::span(x).first(62), table, 0, RopePairing::interleaved, 0),
               std::invalid_argument);
  EXPECT_THROW(apply_rope(x, table, 0, RopePairing::interleaved, 2), std::invalid_argument);
}

TEST(Rope, RefusesPositionsBeyondTheRangeOfSincos) {
  const auto table_of = [](std::int64_t position) {
    const std::vector<std::int64_t> positions = {0, position};
    return rope_table(model_sizes("glm5").rope, kDim, positions, DType::f32);
  };
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  EXPECT_NO_THROW(table_of(kMost));
  for (const std::int64_t position : {kMost + 1, -kMost - 1, INT64_MAX, INT64_MIN})
    EXPECT_THROW(table_of(position), std::invalid_argument) << position;
}

}  // namespace
}  // namespace mlacheck
