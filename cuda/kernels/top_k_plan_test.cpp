#include "cuda/kernels/top_k_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlacheck::kernels {
namespace {

using ::testing::HasSubstr;

mlacheck_top_k_problem problem(std::int64_t rows, std::int64_t columns, std::int64_t k) {
  mlacheck_top_k_problem p = {};
  p.rows = rows;
  p.columns = p.score_stride = columns;
  p.k = k;
  return p;
}

TEST(TopKPlan, SharesRowsAmongTheMultiprocessorsThatTheyLeaveIdle) {
  for (const unsigned multiprocessors : {1u, 48u, 132u, 188u})
    for (const std::int64_t rows : {1, 3, 64, 131, 132, 200, 70'000})
      for (const std::int64_t columns : {0, 1, 32'767, 32'768, 131'072, 1 << 20, 0x7fffffff}) {
        const mlacheck_top_k_problem p = problem(rows, columns, 2048);
        ASSERT_EQ(refusal(p), "");
        const TopKPlan plan = make_plan(p, multiprocessors);
        SCOPED_TRACE(::testing::Message() << multiprocessors << " " << rows << " " << columns);
        EXPECT_EQ(plan.rows, rows);
        EXPECT_GE(plan.slices, 1u);
        EXPECT_LE(plan.slices, TopK::kMostSlices);
        EXPECT_TRUE(plan.slices == 1 || rows * plan.slices <= multiprocessors);
        EXPECT_TRUE(plan.slices == 1 || columns >= 32'768);
        EXPECT_LE(workspace_bytes(plan), std::uint64_t{multiprocessors} << 17);
      }
  EXPECT_EQ(make_plan(problem(1, 131'072, 2048), 132).slices, 32u);
  EXPECT_EQ(make_plan(problem(64, 131'072, 2048), 132).slices, 2u);
}

TEST(TopKPlan, StreamsLongRowsThatHaveABlockEach) {
  EXPECT_TRUE(make_plan(problem(128, 131'072, 2048), 132).streams_rows);
  EXPECT_TRUE(make_plan(problem(70'000, 65'537, 1), 132).streams_rows);
  EXPECT_FALSE(make_plan(problem(64, 131'072, 2048), 132).streams_rows);
  EXPECT_FALSE(make_plan(problem(128, 65'536, 2048), 132).streams_rows);
  EXPECT_FALSE(make_plan(problem(128, 131'073, 2048), 132).streams_rows);
  EXPECT_FALSE(make_plan(problem(128, 131'072, 2049), 132).streams_rows);
}

TEST(TopKPlan, OfNothingToSelectIsEmpty) {
  EXPECT_EQ(make_plan(problem(0, 100'000, 2048), 132).rows, 0u);
  EXPECT_EQ(make_plan(problem(5, 100'000, 0), 132).rows, 0u);
  EXPECT_EQ(workspace_bytes(make_plan(problem(0, 100'000, 2048), 132)), 0u);
}

TEST(TopKPlan, RefusesWithTheValueAndWhatIsAllowed) {
  EXPECT_THAT(refusal(problem(1, 10, 4097)), HasSubstr("k 4097: 0 ... 4096"));
  EXPECT_THAT(refusal(problem(1, 10, -1)), HasSubstr("k -1"));
  EXPECT_THAT(refusal(problem(-1, 10, 1)), HasSubstr("rows -1"));
  EXPECT_THAT(refusal(problem(1, std::int64_t{1} << 31, 1)), HasSubstr("columns 2147483648"));
  mlacheck_top_k_problem p = problem(1, 10, 1);
  p.score_stride = -10;
  EXPECT_THAT(refusal(p), HasSubstr("score_stride -10"));
}

}  // namespace
}  // namespace mlacheck::kernels
