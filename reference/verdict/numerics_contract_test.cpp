#include "reference/verdict/numerics_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_sum.h"
#include "reference/arithmetic/tensor_core.h"
#include "reference/formats/bf16.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

constexpr double kU = 0x1p-24;

TEST(Accumulation, DepthCountsTheRoundingsOfATerm) {
  EXPECT_EQ(depth({}, 576), 576);
  EXPECT_EQ(depth({.block = 16}, 576), 36);
  EXPECT_EQ(depth({.block = 16}, 577), 37);
  EXPECT_EQ(depth({.order = SumOrder::lanes16}, 576), 36 + 4);
  EXPECT_EQ(depth({.order = SumOrder::lanes16}, 2049), 129 + 4);
  EXPECT_EQ(depth({.order = SumOrder::tree}, 2048), 11);
}

TEST(Accumulation, TruncationCostsTwiceAndLosesAlignment) {
  EXPECT_EQ(step_error({}), kU);
  EXPECT_EQ(step_error({.rounding = Rounding::toward_zero}), 2 * kU);
  // 16 terms that lose 2^-25 of the largest each: 8u.
  EXPECT_EQ(step_error({.block = 16, .rounding = Rounding::toward_zero}), 10 * kU);
  EXPECT_NEAR(worst_case({.block = 16}, 576), 36 * kU, 1e-10);
  EXPECT_NEAR(worst_case({.rounds_terms = true}, 100, 3), 104 * kU, 1e-9);
}

TEST(Accumulation, StatisticalIsBelowWorstCaseForLongSums) {
  for (const Rounding rounding : {Rounding::to_nearest, Rounding::toward_zero}) {
    const Accumulation sum{.rounding = rounding};
    EXPECT_EQ(statistical(sum, 4, 0, kLambda), worst_case(sum, 4));
    EXPECT_LT(statistical(sum, 100000, 0, kLambda), 0.6 * worst_case(sum, 100000));
  }
}

// What the reference's sums really lose stays inside, and would not inside a hundredth of the
// bound.
TEST(Accumulation, CoversOrderedSums) {
  const Accumulation sum = reference_contract().qk;
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const testing::CounterRandom random{seed};
    std::vector<float> a(576), b(576);
    double exact = 0, gauge = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = static_cast<float>(random.normal(i));
      b[i] = static_cast<float>(random.uniform(i + 5000));
      exact += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      gauge += std::abs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
    }
    const auto computed = static_cast<double>(ordered_dot(a.data(), b.data(), 576));
    worst = std::max(worst, std::abs(computed - exact) / gauge);
  }
  EXPECT_LT(worst, statistical(sum, 576, 0, kLambda));
  EXPECT_GT(worst, 0.01 * statistical(sum, 576, 0, kLambda));
}

// 36 tensor-core steps, as a query-key product of 576 dimensions takes.
TEST(Accumulation, CoversTensorCoreSums) {
  constexpr Mma kMma{DType::bf16, Lowering::hmma16_f25};
  const Accumulation truncating{.block = 16, .rounding = Rounding::toward_zero};
  const testing::CounterRandom random{5};
  float c[16][8] = {};
  double exact[16][8] = {}, gauge[16][8] = {};
  std::uint64_t draw = 0;
  for (int step = 0; step < 36; ++step) {
    std::uint16_t a[16][16], b[16][8];
    for (auto& row : a)
      for (std::uint16_t& x : row) x = to_bf16(static_cast<float>(random.uniform(draw++))).bits;
    for (auto& row : b)
      for (std::uint16_t& x : row) x = to_bf16(static_cast<float>(random.normal(draw++))).bits;
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j)
        for (int k = 0; k < 16; ++k) {
          const double product = static_cast<double>(to_float(Bf16{a[i][k]})) *
                                 static_cast<double>(to_float(Bf16{b[k][j]}));
          exact[i][j] += product;
          gauge[i][j] += std::abs(product);
        }
    mma_m16n8k16(kMma, a, b, c, c);
  }
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_LE(std::abs(static_cast<double>(c[i][j]) - exact[i][j]),
                statistical(truncating, 576, 0, kLambda) * gauge[i][j]);
}

// 16 products that lose almost 2^-25 of the accumulator each: more than truncation alone explains.
TEST(Accumulation, NeedsTheAlignmentLoss) {
  std::uint16_t a[16][16], b[16][8];
  for (auto& row : a)
    for (std::uint16_t& x : row) x = to_bf16(0x1.fcp-13f).bits;
  for (auto& row : b)
    for (std::uint16_t& x : row) x = to_bf16(0x1p-12f).bits;
  float c[16][8];
  for (auto& row : c) std::fill(std::begin(row), std::end(row), 1.0f);
  mma_m16n8k16({DType::bf16, Lowering::hmma16_f25}, a, b, c, c);
  const double error = std::abs(static_cast<double>(c[0][0]) - (1 + 16 * 0x1.fcp-25));
  EXPECT_GT(error, 3 * step_error({.rounding = Rounding::toward_zero}));
  EXPECT_LE(error, step_error({.block = 16, .rounding = Rounding::toward_zero}));
}

TEST(ReferenceContract, CoversExp2AndLog2) {
  const NumericsContract contract = reference_contract();
  double exp_error = 0, log_error = 0;
  for (std::int64_t i = 0; i < 200000; ++i) {
    const float x = -126 * static_cast<float>(i) / 200000;
    const double exact = std::exp2(static_cast<double>(x));
    exp_error = std::max(exp_error, std::abs(static_cast<double>(exp2_f32(x)) - exact) / exact);
    const float l = 1 + static_cast<float>(i) / 90;
    const double ln = std::log(static_cast<double>(l));
    log_error =
        std::max(log_error, std::abs(static_cast<double>(log2_f32(l) * kLn2) - ln) / (1 + ln));
  }
  EXPECT_LE(exp_error, contract.exp_error);
  EXPECT_LE(log_error, contract.log_error);
  EXPECT_EQ(exp2_f32(-126.5f), 0);  // what exp_underflow declares
  EXPECT_EQ(contract.exp_underflow, 0x1p-126);
}

TEST(NumericsContract, RefusesNonsense) {
  const auto refuses = [](auto change) {
    NumericsContract contract = reference_contract();
    EXPECT_NO_THROW(require_valid(contract));
    change(contract);
    EXPECT_THROW(require_valid(contract), std::invalid_argument);
  };
  refuses([](NumericsContract& c) { c.qk.block = 0; });
  refuses([](NumericsContract& c) { c.tile = -1; });
  refuses([](NumericsContract& c) { c.exp_error = std::nan(""); });
  refuses([](NumericsContract& c) { c.exp_error = 1; });
  refuses([](NumericsContract& c) { c.weight_dtype = DType::i32; });
  refuses([](NumericsContract& c) { c.weight_scale = 0; });
  refuses([](NumericsContract& c) { c.max_splits = 0; });
  refuses([](NumericsContract& c) { c.max_headroom = 1000; });
}

}  // namespace
}  // namespace mlacheck
