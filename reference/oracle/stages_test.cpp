#include "reference/oracle/stages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "reference/formats/bf16.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

std::vector<float> normals(std::size_t n, std::uint64_t seed, double mean = 0) {
  const testing::CounterRandom random{seed};
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(mean + random.normal(i));
  return values;
}

// Elements that the long double answer puts outside the oracle's radius.
template <typename Slow>
int disagreements(const StageOracle& oracle, Slow slow) {
  int count = 0;
  for (std::size_t i = 0; i < oracle.value.size(); ++i)
    count += !(std::abs(static_cast<long double>(oracle.value[i]) - slow(i)) <=
               static_cast<long double>(oracle.radius[i]));
  return count;
}

long double wide(float x) { return static_cast<long double>(x); }

TEST(Stages, LinearAgreesWithNaiveLoopsAndItsGaugeBoundsTheMagnitudes) {
  constexpr std::size_t kRows = 3, kIn = 100, kOut = 130;
  const std::vector<float> x = normals(kRows * kIn, 1);
  std::vector<Bf16> w;
  for (const float value : normals(kOut * kIn, 2)) w.push_back(to_bf16(value));
  const StageOracle oracle = linear_oracle(x, kRows, w.data(), DType::bf16, kOut);
  const auto slow = [&](std::size_t i) {
    long double sum = 0;
    for (std::size_t d = 0; d < kIn; ++d)
      sum += wide(x[i / kOut * kIn + d]) * wide(to_float(w[i % kOut * kIn + d]));
    return sum;
  };
  EXPECT_EQ(disagreements(oracle, slow), 0);
  const auto transposed = [&](std::size_t i) { return slow(i / kOut * kOut + (i + 1) % kOut); };
  EXPECT_EQ(disagreements(oracle, transposed), kRows * kOut);
  for (std::size_t i = 0; i < oracle.gauge.size(); ++i) {
    double magnitude = 0;
    for (std::size_t d = 0; d < kIn; ++d)
      magnitude += std::abs(static_cast<double>(x[i / kOut * kIn + d]) *
                            static_cast<double>(to_float(w[i % kOut * kIn + d])));
    EXPECT_GE(oracle.gauge[i], magnitude);
    EXPECT_LE(oracle.gauge[i], 2.2 * magnitude);
  }
}

TEST(Stages, RmsNormAgreesWithNaiveLoops) {
  const std::vector<float> x = normals(300, 3), w = normals(300, 4, 1);
  long double squares = 0;
  for (const float value : x) squares += wide(value) * wide(value);
  const auto slow = [&](long double eps) {
    return [&, eps](std::size_t i) {
      return wide(w[i]) * wide(x[i]) / std::sqrt(squares / 300 + eps);
    };
  };
  const StageOracle oracle = rms_norm_oracle(x, w, 0x1p-17);
  EXPECT_EQ(disagreements(oracle, slow(0x1p-17L)), 0);
  EXPECT_EQ(disagreements(oracle, slow(0x1p-20L)), 300);
}

TEST(Stages, LayerNormAgreesWithNaiveLoops) {
  const std::vector<float> x = normals(128, 5, 3), w = normals(128, 6, 1), b = normals(128, 7);
  long double mean = 0, variance = 0;
  for (const float value : x) mean += wide(value) / 128;
  for (const float value : x) variance += (wide(value) - mean) * (wide(value) - mean) / 128;
  const auto slow = [&](bool with_bias) {
    return [&, with_bias](std::size_t i) {
      return wide(w[i]) * (wide(x[i]) - mean) / std::sqrt(variance + 0x1p-20L) +
             (with_bias ? wide(b[i]) : 0.0L);
    };
  };
  const StageOracle oracle = layer_norm_oracle(x, w, b, 0x1p-20);
  EXPECT_EQ(disagreements(oracle, slow(true)), 0);
  EXPECT_EQ(disagreements(oracle, slow(false)), 128);
}

TEST(Stages, RopeRotatesPairsOfEitherLayout) {
  const std::vector<float> x = {1, 2, 3, 4}, cos = {0.5f, 0.25f}, sin = {2, 4};
  EXPECT_EQ(rope_oracle(x, cos, sin, RopePairing::interleaved).value,
            (std::vector<double>{0.5 - 4, 1 + 2, 0.75 - 16, 1 + 12}));
  EXPECT_EQ(rope_oracle(x, cos, sin, RopePairing::half_split).value,
            (std::vector<double>{0.5 - 6, 0.5 - 16, 1.5 + 2, 1 + 8}));
  EXPECT_EQ(rope_oracle(x, cos, sin, RopePairing::interleaved).gauge[0], 4.5);
}

TEST(Stages, LinearOfNoRowsIsEmpty) {
  const std::vector<float> w(6);
  EXPECT_TRUE(linear_oracle({}, 0, w.data(), DType::f32, 2).value.empty());
  EXPECT_THROW(linear_oracle(w, 0, w.data(), DType::f32, 2), std::invalid_argument);
  EXPECT_THROW(linear_oracle(w, -1, w.data(), DType::f32, 2), std::invalid_argument);
}

TEST(Stages, RefuseUnequalSizes) {
  const std::vector<float> three(3), two(2);
  EXPECT_THROW(rms_norm_oracle(three, two, 0), std::invalid_argument);
  EXPECT_THROW(layer_norm_oracle(three, three, two, 0), std::invalid_argument);
  EXPECT_THROW(rope_oracle(three, two, two, RopePairing::interleaved), std::invalid_argument);
  EXPECT_THROW(linear_oracle(three, 2, nullptr, DType::f32, 0), std::invalid_argument);
}

TEST(Stages, LinearRefusesWeightsOfAnotherType) {
  const std::vector<float> x(4);
  EXPECT_THROW(linear_oracle(x, 1, x.data(), DType::i32, 1), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
