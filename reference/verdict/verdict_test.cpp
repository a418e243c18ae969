#include "reference/verdict/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/verdict/tally.h"

namespace mlacheck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ExitCode, IsThatOfTheGravestKind) {
  using enum Status;
  const auto code = [](std::vector<Status> statuses) { return exit_code(statuses); };
  EXPECT_EQ(code({pass, pass}), 0);
  EXPECT_EQ(code({pass, skipped, refused}), 0);
  EXPECT_EQ(code({pass, fail, improbable}), 1);
  EXPECT_EQ(code({crashed}), 1);
  EXPECT_EQ(code({pass, improbable}), 4);
  EXPECT_EQ(code({mistrusted, skipped}), 4);
  EXPECT_EQ(code({skipped, refused}), 77);
  EXPECT_EQ(code({}), 77);
}

ElementBound bound(double expected) { return {expected, 0x1p-5, 0x1p-6, {}}; }

TEST(Tally, NamesTheWorstElement) {
  Tally tally(DType::bf16);
  tally.add({0, 0, 0}, bound(1), 1);
  tally.add({0, 0, 1}, bound(1), 1 + 0x1.8p-6f);  // improbable
  const Finding improbable = tally.finding("out");
  EXPECT_EQ(improbable.status, Status::improbable);
  EXPECT_EQ(improbable.low, 1 - 0x1p-6);
  EXPECT_EQ(improbable.high, 1 + 0x1p-6);
  EXPECT_DOUBLE_EQ(improbable.likely_ratio, 0x1.8p-6 / (0x1p-6 + 0x1p-8));
  EXPECT_THAT(to_string(improbable),
              AllOf(HasSubstr("got 1.0234375, expected 1, rounded in [0.984375, 1.015625], off by "
                              "0.02344, statistical budget used 120 % of 0.01953,"),
                    HasSubstr("proven budget used 66.7 % of 0.03516")));
  tally.add({2, 3, 4}, bound(1), 1.5f);   // fails
  tally.add({2, 3, 5}, bound(2), 2.25f);  // fails by less
  const Finding finding = tally.finding("out");
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.elements, 4);
  EXPECT_EQ(finding.failed, 2);
  EXPECT_EQ(finding.improbable, 1);
  EXPECT_EQ(finding.worst, (std::array<std::int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(finding.expected, 1);
  EXPECT_EQ(finding.got, 1.5);
  EXPECT_EQ(finding.low, 1 - 0x1p-5);
  EXPECT_EQ(finding.high, 1 + 0x1p-5);
  EXPECT_DOUBLE_EQ(finding.ratio, 0.5 / (0x1p-5 + 0x1p-8));
  EXPECT_EQ(finding.max_abs, 0.5);
  EXPECT_EQ(finding.max_ulp, 64);
  EXPECT_THAT(to_string(finding), AllOf(HasSubstr("FAIL out"), HasSubstr("2 of 4"),
                                        HasSubstr("[2, 3, 4]"), HasSubstr("got 1.5")));
}

// The interval is of the format's values, and need not hold what is expected; the budget is not.
TEST(Tally, SaysWhatWasJudgedInFull) {
  Tally tally(DType::bf16);
  tally.add({0, 0, 0}, {1.00012207031, 0x1p-12, 0x1p-12, {}}, 1);
  EXPECT_THAT(describe(tally.finding("out")),
              HasSubstr("got 1, expected 1.00012207031, rounded in [1, 1], off by 0.0001221, "
                        "budget used 2.94 % of 0.00415"));
}

TEST(Tally, MergedPartsGiveTheSameFinding) {
  Tally whole(DType::bf16), first(DType::bf16), second(DType::bf16);
  for (std::int64_t i = 0; i < 100; ++i) {
    const float got = 1 + 0x1p-7f * static_cast<float>(i % 5);
    whole.add({i, 0, 0}, bound(1), got);
    (i < 33 ? first : second).add({i, 0, 0}, bound(1), got);
  }
  second.merge(first);
  EXPECT_EQ(to_string(second.finding("x")), to_string(whole.finding("x")));
  EXPECT_EQ(second.finding("x").worst[0], 4);
  EXPECT_THROW(first.merge(Tally(DType::f32)), std::invalid_argument);
}

constexpr HeatMap::Cell kNothing;

TEST(HeatMap, ShowsTheCellOfTheWorst) {
  HeatMap map;
  const HeatMap::Cell good{Status::pass, 0.9f}, improbable{Status::improbable, 0.5f},
      wrong{Status::fail, 7};
  for (std::int64_t h = 0; h < 3; ++h)
    for (std::int64_t c = 0; c < 512; ++c) {
      map.add(h, c, h == 1 && c == 300 ? wrong : good);
      map.add(h, c, h == 2 && c == 8 ? improbable : good);
    }
  EXPECT_EQ(map.cells_down(), 3);
  EXPECT_EQ(map.rows_of_cell(), 1);
  EXPECT_EQ(map.cells_across(), 64);
  EXPECT_EQ(map.columns_of_cell(), 8);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 64; ++j)
      EXPECT_EQ(map.cell(i, j), i == 1 && j == 300 / 8 ? wrong
                                : i == 2 && j == 1     ? improbable
                                                       : good)
          << i << ", " << j;
}

TEST(HeatMap, LeavesCellsWithoutElementsEmpty) {
  HeatMap map;
  map.add(5, 70, {Status::pass, 0});
  EXPECT_EQ(map.cells_down(), 6);
  EXPECT_EQ(map.cells_across(), 36);
  EXPECT_EQ(map.cell(5, 35), (HeatMap::Cell{Status::pass, 0}));
  EXPECT_EQ(map.cell(5, 34), kNothing);
  EXPECT_EQ(map.cell(4, 35), kNothing);
}

// Parts of other cell sizes: a thread has seen early tokens alone.
TEST(HeatMap, MergedPartsGiveTheSameMap) {
  HeatMap whole, early, late;
  for (std::int64_t t = 0; t < 1000; ++t)
    for (std::int64_t h = 0; h < 70; h += 3) {
      const float ratio = static_cast<float>((31 * t + 7 * h) % 101) / 64;
      const HeatMap::Cell element{ratio > 1 ? Status::fail : Status::pass, ratio};
      whole.add(t, h, element);
      (t < 40 ? early : late).add(t, h, element);
    }
  HeatMap early_first = early;
  early_first.merge(late);
  late.merge(early);
  late.merge(HeatMap());
  for (const HeatMap* map : {&early_first, &late}) {
    EXPECT_EQ(map->rows(), whole.rows());
    EXPECT_EQ(map->columns(), whole.columns());
    ASSERT_EQ(map->rows_of_cell(), whole.rows_of_cell());
    ASSERT_EQ(map->columns_of_cell(), whole.columns_of_cell());
    for (std::int64_t i = 0; i < whole.cells_down(); ++i)
      for (std::int64_t j = 0; j < whole.cells_across(); ++j)
        EXPECT_EQ(map->cell(i, j), whole.cell(i, j)) << i << ", " << j;
  }
}

TEST(Tally, PicturesItsElements) {
  Tally tally(DType::f32, {"token", "head", "dim"});
  EXPECT_TRUE(tally.finding("x").picture.elements.empty());
  tally.add({0, 0, 0}, {0, 1, 1, {.anything = true}}, 7);
  EXPECT_TRUE(tally.finding("x").picture.elements.empty());
  const ElementBound one{0, 1, 1, {}};
  tally.add({0, 1, 0}, one, 0.3f);
  tally.add({0, 2, 5}, {0, 1, 0.1, {}}, 0.3f);
  tally.add({1, 2, 4}, one, std::nanf(""));
  const BudgetPicture picture = tally.finding("x").picture;
  EXPECT_EQ(picture.elements[0], 0);
  EXPECT_EQ(picture.elements[4], 2);
  EXPECT_EQ(picture.elements.back(), 1);
  ASSERT_EQ(picture.planes.size(), 2u);
  const HeatMap &rows = picture.planes[0], &dims = picture.planes[1];
  EXPECT_EQ(rows.cell(0, 0), kNothing);
  EXPECT_EQ(rows.cell(0, 1).status, Status::pass);
  EXPECT_NEAR(rows.cell(0, 1).ratio, 0.3, 1e-6);
  EXPECT_EQ(rows.cell(0, 2).status, Status::improbable);
  EXPECT_EQ(rows.cell(1, 2).status, Status::fail);
  EXPECT_EQ(dims.cell(2, 4).status, Status::fail);
  EXPECT_EQ(dims.cell(2, 5).status, Status::improbable);
}

TEST(Tally, QuantileIgnoresOneInAThousand) {
  Tally tally(DType::f32);
  const ElementBound one{0, 1, 1, {}};
  for (std::int64_t i = 0; i < 2000; ++i) tally.add({i, 0, 0}, one, i < 2 ? 0.9f : 0.25f);
  EXPECT_NEAR(tally.finding("x").ratio_p999, 0.25, 0.003);
  EXPECT_NEAR(tally.finding("x").ratio, 0.9, 1e-6);
  for (std::int64_t i = 0; i < 10; ++i) tally.add({i, 1, 0}, one, 0.9f);
  EXPECT_NEAR(tally.finding("x").ratio_p999, 0.9, 0.003);
  EXPECT_THAT(to_string(tally.finding("x")), HasSubstr("; p99.9 90"));
  for (std::int64_t i = 0; i < 10; ++i) tally.add({i, 2, 0}, one, 9);
  EXPECT_THAT(to_string(tally.finding("x")), HasSubstr("; p99.9 >= 400 %"));
}

TEST(Tally, ANanIsTheWorstThatCanBe) {
  Tally tally(DType::f32);
  tally.add({0, 0, 0}, bound(1), 1e30f);
  tally.add({0, 0, 1}, bound(1), std::nanf(""));
  const Finding finding = tally.finding("x");
  EXPECT_EQ(finding.worst[2], 1);
  EXPECT_TRUE(std::isnan(finding.got));
  EXPECT_EQ(finding.failed, 2);
}

TEST(Tally, CosineIsZeroForEqualAndOneForZeros) {
  Tally equal(DType::f32), zeros(DType::f32);
  for (std::int64_t i = 1; i < 9; ++i) {
    equal.add({i, 0, 0}, bound(static_cast<double>(i)), static_cast<float>(i));
    zeros.add({i, 0, 0}, bound(static_cast<double>(i)), 0);
  }
  EXPECT_NEAR(equal.finding("x").cosine, 0, 1e-15);
  EXPECT_EQ(zeros.finding("x").cosine, 1);
  EXPECT_EQ(Tally(DType::f32).finding("x").status, Status::pass);
}

}  // namespace
}  // namespace mlacheck
