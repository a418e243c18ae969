#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <span>

#include "cuda/kernels/index_select_testing.h"
#include "reference/verdict/top_k_rule.h"

// Wrong index_select kernels: whose launches do not wait for one another or share memory, which the
// emulator must notice, or that take wrong rows, which the verdict must.
namespace mlacheck::kernels::testing {
namespace {

using emulator::CallSite;
using emulator::Primitive;

constexpr std::int64_t kRowsAtATime = 3;

IndexSelectPlan plan_of(const mlacheck_index_select_problem& p) {
  IndexSelectPlan plan = make_plan(p, 4);
  plan.rows = kRowsAtATime;
  return plan;
}

// What the emulator or the verdict says; empty where both are content.
std::string flaw_of(const IndexProblem& problem, const Selected& selected) {
  if (!selected.reports.empty()) return text_of(selected.reports);
  const IndexScoresProblem p = problem.problem();
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const IndexScoresOracle oracle = index_scores_oracle(p, t);
    const ScoreBoxes boxes =
        score_boxes(index_score_bounds(oracle, p, IndexProblem::contract()), DType::f32);
    const Finding finding = check_top_k(
        std::span(selected.keys).subspan(static_cast<std::size_t>(t * kSelected), kSelected),
        oracle.begin, boxes.score, boxes.radius, IndexProblem::contract());
    if (finding.status != Status::pass) return "row " + std::to_string(t) + to_string(finding);
  }
  return "";
}

TEST(IndexSelectMutants, WhoseKernelsDoNotWaitAreNoticed) {
  const IndexProblem problem = ragged();
  const mlacheck_index_select_problem p = abi(problem, true);
  emulator::SessionOptions listing;
  listing.list_call_sites = true;
  const Selected clean = select(problem, p, plan_of(p), listing);
  ASSERT_EQ(text_of(clean.reports), "");
  std::set<std::string> files;
  for (const CallSite& site : clean.call_sites) {
    if (site.primitive != Primitive::wait_for_previous_kernel) continue;
    files.insert(std::filesystem::path(site.file).filename().string());
    emulator::SessionOptions options;
    options.mutations = {{site, 0}};
    EXPECT_FALSE(select(problem, p, plan_of(p), options).reports.empty())
        << site.file << ":" << site.line << " left out";
  }
  EXPECT_EQ(files, (std::set<std::string>{"index_scores_ahead.h", "map_slots.h", "top_k.h"}));
}

class WrongSelection : public ::testing::Test {
 protected:
  WrongSelection() : problem_(ragged()), p_(abi(problem_, false)), plan_(plan_of(p_)) {
    EXPECT_EQ(flaw(), "");
  }
  std::string flaw() const { return flaw_of(problem_, select(problem_, p_, plan_)); }

  IndexProblem problem_;
  mlacheck_index_select_problem p_;
  IndexSelectPlan plan_;
};

TEST_F(WrongSelection, TheKeysOfAnotherRequest) {
  p_.scores.has_request = 0;
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, TheKeysOfTheWholeRow) {
  p_.scores.has_key_range = 0;
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, AHeadDropped) {
  p_.scores.heads -= 1;
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, TheQueriesOfAnotherRow) {
  p_.scores.q_token_stride = 0;
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, RowsThatOverlapInTheWorkspace) {
  plan_.score_stride -= 12;
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, MoreRowsThanTheWorkspaceHas) {
  plan_.rows = kRowsAtATime + 2;
  plan_.workspace_bytes = static_cast<std::uint64_t>(kRowsAtATime * plan_.score_stride * 4);
  EXPECT_NE(flaw(), "");
}

TEST_F(WrongSelection, RowsThatAreLeftOut) {
  p_.scores.tokens -= 1;
  Selected selected = select(problem_, p_, plan_);
  selected.keys.resize(static_cast<std::size_t>(problem_.tokens * kSelected), 12345);
  EXPECT_NE(flaw_of(problem_, selected), "");
}

// Of a row that several blocks share, candidates stand behind the scores.
TEST(IndexSelectMutants, CandidatesOverTheScoresAreNoticed) {
  const IndexProblem problem(1, 1, 33'000, device::Element::f16);
  const mlacheck_index_select_problem p = abi(problem, false);
  IndexSelectPlan plan = make_plan(p, 4);
  ASSERT_GT(plan.workspace_bytes, plan.score_bytes);
  ASSERT_EQ(text_of(select(problem, p, plan).reports), "");
  plan.score_bytes = 0;
  EXPECT_FALSE(select(problem, p, plan).reports.empty());
}

}  // namespace
}  // namespace mlacheck::kernels::testing
