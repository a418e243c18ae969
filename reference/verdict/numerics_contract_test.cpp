#include "reference/verdict/numerics_contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_sum.h"
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
