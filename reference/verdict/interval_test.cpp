#include "reference/verdict/interval.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/operators/views.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Interval, EndsAreRoundedToTheFormat) {
  // bf16 neighbours of 1: 1 - 2^-8, 1, 1 + 2^-7.
  const auto around_one = [](double radius) { return rounded_interval(1, radius, DType::bf16); };
  EXPECT_EQ(around_one(0).low, 1);
  EXPECT_EQ(around_one(0x0.8p-8).high, 1);  // below the middle
  EXPECT_EQ(around_one(0x1p-8).high, 1);    // a tie goes to even
  EXPECT_EQ(around_one(0x1.01p-8).high, 1 + 0x1p-7);
  EXPECT_EQ(around_one(0x1p-8 + 0x1p-40).high, 1 + 0x1p-7);  // not lost on the way through fp32
  EXPECT_EQ(around_one(0x1.01p-9).low, 1 - 0x1p-8);
  EXPECT_EQ(rounded_interval(0x1p-134 + 0x1p-160, 0, DType::bf16).high, 0x1p-133);  // subnormal
  EXPECT_EQ(rounded_interval(65519, 2, DType::f16).high, std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded_interval(65519, 2, DType::f16).low, 65504);
  EXPECT_EQ(rounded_interval(0, std::nan(""), DType::f32).high, static_cast<double>(kInfinity));
}

RC_GTEST_PROP(Interval, HoldsWhateverRoundsFromInside, ()) {
  const auto bits = *rc::gen::arbitrary<std::uint32_t>();
  const auto x = std::bit_cast<float>(bits);
  RC_PRE(std::isfinite(x));
  const double radius = std::abs(static_cast<double>(x)) * *rc::gen::inRange(0, 200) / 10000;
  const double inside = static_cast<double>(x) + radius * *rc::gen::inRange(-10, 11) / 10;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto rounded = static_cast<double>(round_to(dtype, static_cast<float>(inside)));
    const Interval interval = rounded_interval(static_cast<double>(x), radius, dtype);
    RC_ASSERT(rounded >= interval.low && rounded <= interval.high);
  }
}

TEST(Judge, HasThreeAnswers) {
  const ElementBound bound{1, 0x1p-5, 0x1p-6, {}};
  const auto status = [&](float got) { return judge(bound, DType::bf16, got).status; };
  EXPECT_EQ(status(1), Status::pass);
  EXPECT_EQ(status(1 + 0x1p-6f), Status::pass);
  EXPECT_EQ(status(1 + 0x1.8p-6f), Status::improbable);
  EXPECT_EQ(status(1 - 0x1p-5f), Status::improbable);
  EXPECT_EQ(status(1 + 0x1.4p-5f), Status::fail);
  EXPECT_EQ(status(-1), Status::fail);
  EXPECT_EQ(status(kNan), Status::fail);
  EXPECT_EQ(status(kInfinity), Status::fail);
}

TEST(Judge, RatioIsTheShareOfTheBudget) {
  const ElementBound bound{1, 0x1p-5, 0x1p-5, {}};
  EXPECT_EQ(judge(bound, DType::bf16, 1).ratio, 0);
  EXPECT_DOUBLE_EQ(judge(bound, DType::bf16, 1 + 0x1p-5f).ratio, 0x1p-5 / (0x1p-5 + 0x1p-8));
  EXPECT_GT(judge(bound, DType::bf16, 2).ratio, 1);
  EXPECT_EQ(judge(bound, DType::bf16, kNan).ratio, std::numeric_limits<double>::infinity());
  EXPECT_EQ(judge({0, 0, 0, {}}, DType::f32, 0).ratio, 0);
}

TEST(Judge, PlacesSpecialValues) {
  const auto status = [](Admissible admissible, float got) {
    return judge({0, 0, 0, admissible}, DType::f32, got).status;
  };
  const Admissible only_nan{.finite = false, .nan = true};
  EXPECT_EQ(status(only_nan, kNan), Status::pass);
  EXPECT_EQ(status(only_nan, 0), Status::fail);
  const Admissible only_plus{.finite = false, .plus_inf = true};
  EXPECT_EQ(status(only_plus, kInfinity), Status::pass);
  EXPECT_EQ(status(only_plus, -kInfinity), Status::fail);
  EXPECT_EQ(status(only_plus, kNan), Status::fail);
  const Admissible either{.nan = true, .minus_inf = true};
  for (const float got : {0.0f, kNan, -kInfinity}) EXPECT_EQ(status(either, got), Status::pass);
  EXPECT_EQ(status(either, kInfinity), Status::fail);
  const Admissible exact_zero{.negative_zero = false};
  EXPECT_EQ(status(exact_zero, 0.0f), Status::pass);
  EXPECT_EQ(status(exact_zero, -0.0f), Status::fail);
  EXPECT_EQ(status({}, -0.0f), Status::pass);
  for (const float got : {0.0f, 7.0f, kNan, kInfinity})
    EXPECT_EQ(status({.anything = true}, got), Status::pass);
}

TEST(Spacing, IsOneUnitInTheLastPlace) {
  EXPECT_EQ(spacing(DType::f32, 1), 0x1p-23);
  EXPECT_EQ(spacing(DType::bf16, -1.99), 0x1p-7);
  EXPECT_EQ(spacing(DType::f16, 2), 0x1p-9);
  EXPECT_EQ(spacing(DType::f16, 1e-7), 0x1p-24);
  EXPECT_EQ(spacing(DType::bf16, 0), 0x1p-133);
}

TEST(UlpDistance, CountsRepresentableValues) {
  EXPECT_EQ(ulp_distance(DType::bf16, 1, 1 + 0x1p-7f), 1);
  EXPECT_EQ(ulp_distance(DType::bf16, 1, 1 - 0x1p-8f), 1);
  EXPECT_EQ(ulp_distance(DType::f32, 0.0f, -0.0f), 0);
  EXPECT_EQ(ulp_distance(DType::f32, 0x1p-149f, -0x1p-149f), 2);
  EXPECT_EQ(ulp_distance(DType::f16, kNan, -kNan), 0);
  EXPECT_GT(ulp_distance(DType::f16, kNan, kInfinity), 0);
}

}  // namespace
}  // namespace mlacheck
