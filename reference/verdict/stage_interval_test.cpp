#include "reference/verdict/stage_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/views.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

std::vector<float> normals(std::size_t n, std::uint64_t seed, double mean = 0) {
  const testing::CounterRandom random{seed};
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = round_to(DType::bf16, static_cast<float>(mean + random.normal(i)));
  return values;
}

const Accumulation kOrdered = reference_contract().qk;

TEST(StageInterval, LinearPassesAndSeesOneInputLost) {
  constexpr std::int64_t kRows = 4, kIn = 512, kOut = 64;
  const std::vector<float> x = normals(kRows * kIn, 1), w = normals(kOut * kIn, 2);
  const StageOracle oracle = linear_oracle(x, kRows, w.data(), DType::f32, kOut);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<float> y(kRows * kOut), short_of_one(y.size());
    for (std::int64_t t = 0; t < kRows; ++t)
      for (std::int64_t o = 0; o < kOut; ++o) {
        const auto i = static_cast<std::size_t>(t * kOut + o);
        y[i] = round_to(dtype, ordered_dot(x.data() + t * kIn, w.data() + o * kIn, kIn));
        short_of_one[i] =
            round_to(dtype, ordered_dot(x.data() + t * kIn, w.data() + o * kIn, kIn - 1));
      }
    const StageError error = linear_error(kOrdered, kIn);
    EXPECT_EQ(check_stage("q_a_proj", oracle, error, dtype, y, kOut).status, Status::pass);
    const Finding finding = check_stage("q_a_proj", oracle, error, dtype, short_of_one, kOut);
    EXPECT_EQ(finding.status, Status::fail);
    EXPECT_EQ(finding.stage, "q_a_proj");
    EXPECT_GT(finding.failed, kRows * kOut / 2);
  }
}

TEST(StageInterval, RmsNormPassesAndSeesTheWrongEps) {
  std::vector<float> x = normals(512, 3);
  const std::vector<float> w = normals(512, 4, 1);
  for (float& value : x) value *= 0x1p-9f;  // so small that eps matters
  const StageOracle oracle = rms_norm_oracle(x, w, 1e-6);
  const auto computed = [&](float eps, DType between, DType out) {
    const float mean = ordered_dot(x.data(), x.data(), 512) / 512;
    const float rstd = 1 / std::sqrt(mean + eps);
    std::vector<float> y(512);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = round_to(out, round_to(between, x[i] * rstd) * w[i]);
    return y;
  };
  const auto status = [&](bool between, DType out, const std::vector<float>& y) {
    return check_stage("norm", oracle, rms_norm_error(kOrdered, 512, between), out, y, 512).status;
  };
  EXPECT_EQ(status(false, DType::f32, computed(1e-6f, DType::f32, DType::f32)), Status::pass);
  EXPECT_EQ(status(false, DType::f32, computed(1e-5f, DType::f32, DType::f32)), Status::fail);
  EXPECT_EQ(status(true, DType::bf16, computed(1e-6f, DType::bf16, DType::bf16)), Status::pass);
  EXPECT_EQ(status(true, DType::bf16, computed(1e-5f, DType::bf16, DType::bf16)), Status::fail);
  EXPECT_EQ(status(false, DType::bf16, computed(1e-6f, DType::bf16, DType::bf16)), Status::fail);
}

TEST(StageInterval, LayerNormPassesAndSeesTheBiasForgotten) {
  const std::vector<float> x = normals(128, 5, 4), w = normals(128, 6, 1), b = normals(128, 7);
  const StageOracle oracle = layer_norm_oracle(x, w, b, 1e-6);
  std::vector<float> d(128), y(128), unbiased(128);
  const float mean = ordered_sum(x.data(), 128) / 128;
  for (std::size_t i = 0; i < 128; ++i) d[i] = x[i] - mean;
  const float rstd = 1 / std::sqrt(ordered_dot(d.data(), d.data(), 128) / 128 + 1e-6f);
  for (std::size_t i = 0; i < 128; ++i) {
    unbiased[i] = d[i] * rstd * w[i];
    y[i] = unbiased[i] + b[i];
  }
  const StageError error = layer_norm_error(kOrdered, 128);
  EXPECT_EQ(check_stage("k_norm", oracle, error, DType::f32, y, 128).status, Status::pass);
  EXPECT_EQ(check_stage("k_norm", oracle, error, DType::f32, unbiased, 128).status, Status::fail);
}

TEST(StageInterval, RopePassesAndSeesTheOtherPairing) {
  const std::vector<float> x = normals(64, 8);
  std::vector<float> cos(32), sin(32);
  for (std::size_t i = 0; i < 32; ++i) {
    cos[i] = std::cos(static_cast<float>(i));
    sin[i] = std::sin(static_cast<float>(i));
  }
  for (const bool rounds : {false, true}) {
    const DType dtype = rounds ? DType::bf16 : DType::f32;
    std::vector<float> y(64);
    for (std::size_t i = 0; i < 32; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = round_to(dtype, round_to(dtype, a * cos[i]) - round_to(dtype, b * sin[i]));
      y[2 * i + 1] = round_to(dtype, round_to(dtype, b * cos[i]) + round_to(dtype, a * sin[i]));
    }
    const auto status = [&](RopePairing pairing) {
      return check_stage("rope", rope_oracle(x, cos, sin, pairing), rope_error(rounds), dtype, y,
                         64)
          .status;
    };
    EXPECT_EQ(status(RopePairing::interleaved), Status::pass);
    EXPECT_EQ(status(RopePairing::half_split), Status::fail);
    // The rounding to the output's format is the interval's own.
    EXPECT_LT(rope_error(rounds).core, rounds ? 0x1.02p-8 : 0x1.01p-23);
  }
}

TEST(StageInterval, RefusesAnotherShape) {
  const std::vector<float> x(8), w(8);
  EXPECT_THROW(
      check_stage("norm", rms_norm_oracle(x, w, 1), {}, DType::f32, std::vector<float>(7), 7),
      std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
