// index_select: scores and selection by parts of the rows give what they give for all rows at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "cuda/kernels/index_select_testing.h"

namespace mlacheck::kernels::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(IndexSelect, SelectsFromTheKernelsOwnScoresHoweverManyRowsAtATime) {
  const IndexProblem problem = ragged();
  const std::vector<std::int32_t> keys = expected_keys(problem);
  for (const bool to_slots : {false, true}) {
    const mlacheck_index_select_problem p = abi(problem, to_slots);
    const IndexSelectPlan whole = make_plan(p, 4);
    EXPECT_EQ(whole.rows, problem.tokens);
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, problem.tokens}) {
      IndexSelectPlan plan = whole;
      plan.rows = rows;
      const Selected selected = select(problem, p, plan);
      EXPECT_EQ(text_of(selected.reports), "");
      EXPECT_EQ(selected.keys, to_slots ? slots_of_keys(problem, keys) : keys)
          << rows << " rows at a time";
    }
  }
}

TEST(IndexSelect, KeepsItsScoresInTheL2Cache) {
  mlacheck_index_select_problem p = abi(ragged(), false);
  p.k = 2048;
  for (const std::int64_t keys : {1, 1000, 131'072, 1 << 20, 1 << 24}) {
    p.scores.tokens = p.scores.key_count = keys;
    p.scores.block_table_stride = keys;
    EXPECT_EQ(refusal(p), "");
    for (const unsigned multiprocessors : {48u, 132u, 188u}) {
      const IndexSelectPlan plan = make_plan(p, multiprocessors);
      EXPECT_LE(plan.workspace_bytes, std::uint64_t{128} << 20) << keys;
      EXPECT_GE(plan.rows, 1);
      EXPECT_TRUE(plan.rows == keys || plan.rows < 32 || plan.rows % 32 == 0) << plan.rows;
    }
  }
}

// A flag without its tensor is not taken for no flag.
TEST(IndexSelect, ReadsNoRangesWithoutKeys) {
  IndexProblem problem(3, 1, 0, device::Element::f16);
  problem.begin = problem.end = {0, 0, 0};
  const mlacheck_index_select_problem p = abi(problem, false);
  const Selected selected = select(problem, p, make_plan(p, 4));
  EXPECT_EQ(text_of(selected.reports), "");
  EXPECT_THAT(selected.keys, Each(-1));
}

TEST(IndexSelect, RefusesTensorsThatAreNotThere) {
  const IndexProblem problem = ragged();
  mlacheck_problem p = {};
  p.op = MLACHECK_INDEX_SELECT;
  p.u.index_select = abi(problem, false);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(problem.tokens * kSelected));
  mlacheck_tensors t = problem.tensors(nullptr);
  t.selected = selected.data();
  alignas(256) static std::byte workspace[1 << 20];
  const auto reason = [&] {
    char why[256] = "";
    const int result = Functions<IndexSelectKernel<MLACHECK_F16>>::run(
        &p, &t, workspace, sizeof workspace, nullptr, why, sizeof why);
    EXPECT_EQ(result == 0, std::string(why).empty());
    return std::string(why);
  };
  EXPECT_EQ(reason(), "");
  for (const std::int32_t* mlacheck_tensors::*tensor :
       {&mlacheck_tensors::range_end, &mlacheck_tensors::request, &mlacheck_tensors::block_table}) {
    const std::int32_t* kept = std::exchange(t.*tensor, nullptr);
    EXPECT_THAT(reason(), HasSubstr("is null, and the problem has it"));
    t.*tensor = kept;
  }
  t.weights = nullptr;
  EXPECT_EQ(reason(), "weights is null, and the problem has it");
}

TEST(IndexSelect, RefusesSlotsWithoutATable) {
  const IndexProblem flat(2, 3, 40, device::Element::f16);
  EXPECT_EQ(refusal(abi(flat, false)), "");
  EXPECT_THAT(refusal(abi(flat, true)), HasSubstr("without a block table"));
}

}  // namespace
}  // namespace mlacheck::kernels::testing
