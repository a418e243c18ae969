// index_select: scores and selection by parts of the rows give what they give for all rows at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "cuda/kernels/index_scores_testing.h"
#include "cuda/kernels/index_select_library.h"
#include "reference/operators/map_slots.h"
#include "reference/operators/top_k.h"

namespace mlacheck::kernels::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kSelected = 20;

// Ragged rows of three requests in pages of 8.
IndexProblem ragged() {
  IndexProblem problem(7, 5, 75, device::Element::f16);
  problem.begin = {0, 3, 40, 75, 10, 0, 60};
  problem.end = {75, 60, 45, 75, 31, 1, 75};
  problem.paginate(8, 3);
  return problem;
}

mlacheck_index_select_problem abi(const IndexProblem& problem, bool to_slots) {
  mlacheck_index_select_problem p = {};
  p.scores = problem.abi();
  p.k = kSelected;
  p.to_slots = to_slots ? 1 : 0;
  return p;
}

struct Selected {
  std::vector<std::int32_t> keys;
  std::vector<emulator::Report> reports;
};

Selected select(const IndexProblem& problem, const IndexSelectPlan& plan, bool to_slots) {
  constexpr std::int32_t kUnwritten = 12345;
  const mlacheck_index_select_problem p = abi(problem, to_slots);
  Selected selected;
  selected.keys.assign(static_cast<std::size_t>(p.scores.tokens * p.k), kUnwritten);
  alignas(256) static std::byte workspace[1 << 20];
  EXPECT_LE(plan.workspace_bytes, sizeof workspace);
  mlacheck_tensors t = problem.tensors(nullptr);
  t.selected = selected.keys.data();
  emulator::Session session;
  device::Stream stream(&session);
  declare_tensors(stream, p.scores, t);
  device::declare_memory(stream, "selected", t.selected, selected.keys.size() * 4,
                         device::Access::read_write);
  device::declare_memory(stream, "workspace", workspace, plan.workspace_bytes,
                         device::Access::write);
  launch_index_select<device::Element::f16>(stream, p, t, plan, workspace, 4);
  selected.reports = session.reports();
  return selected;
}

// What the kernel's own scores ask for.
std::vector<std::int32_t> expected(const IndexProblem& problem) {
  const ScoreOutcome outcome = problem.run(problem.plan());
  std::vector<std::int32_t> keys(static_cast<std::size_t>(problem.tokens * kSelected));
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    mlacheck::top_k(outcome.scores.data() + t * problem.key_count, problem.begin_of(t),
                    problem.end_of(t), kSelected, keys.data() + t * kSelected);
  }
  return keys;
}

TEST(IndexSelect, SelectsFromTheKernelsOwnScoresHoweverManyRowsAtATime) {
  const IndexProblem problem = ragged();
  const IndexSelectPlan whole = make_plan(abi(problem, false), 4);
  EXPECT_EQ(whole.rows, problem.tokens);
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{3}, problem.tokens}) {
    IndexSelectPlan plan = whole;
    plan.rows = rows;
    const Selected selected = select(problem, plan, false);
    EXPECT_THAT(selected.reports, IsEmpty());
    EXPECT_EQ(selected.keys, expected(problem)) << rows << " rows at a time";
  }
}

TEST(IndexSelect, MapsToSlotsThroughEachRowsTable) {
  const IndexProblem problem = ragged();
  IndexSelectPlan plan = make_plan(abi(problem, true), 4);
  plan.rows = 3;
  const Selected selected = select(problem, plan, true);
  EXPECT_THAT(selected.reports, IsEmpty());
  const std::vector<std::int32_t> keys = expected(problem);
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const std::span<const std::int32_t> table(
        problem.block_table.data() + problem.request[static_cast<std::size_t>(t)] * problem.stride,
        static_cast<std::size_t>(problem.stride));
    std::vector<std::int32_t> slots(kSelected);
    mlacheck::map_slots({keys.data() + t * kSelected, slots.size()}, table, problem.page_size,
                        slots);
    EXPECT_THAT(slots, ::testing::ElementsAreArray(selected.keys.data() + t * kSelected,
                                                   static_cast<std::size_t>(kSelected)))
        << "row " << t;
  }
}

// The scores of the row before: what a part that begins at a wrong row would select from.
TEST(IndexSelect, ItsRowsDiffer) {
  const IndexProblem problem = ragged();
  const std::vector<std::int32_t> keys = expected(problem);
  for (std::int64_t t = 1; t < problem.tokens; ++t)
    EXPECT_FALSE(std::equal(keys.begin() + t * kSelected, keys.begin() + (t + 1) * kSelected,
                            keys.begin() + (t - 1) * kSelected));
}

TEST(IndexSelect, KeepsItsScoresInTheL2Cache) {
  mlacheck_index_select_problem p = abi(ragged(), false);
  p.k = 2048;
  for (const std::int64_t keys : {1, 1000, 131'072, 1 << 20, 1 << 24}) {
    p.scores.tokens = p.scores.key_count = keys;
    p.scores.block_table_stride = keys;
    const IndexSelectPlan plan = make_plan(p, 132);
    EXPECT_EQ(refusal(p), "");
    EXPECT_LE(plan.workspace_bytes, std::uint64_t{256} << 20) << keys;
    EXPECT_GE(plan.rows, 1);
    EXPECT_TRUE(plan.rows == keys || plan.rows < 32 || plan.rows % 32 == 0) << plan.rows;
  }
}

// A flag without its tensor is not taken for no flag.
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
