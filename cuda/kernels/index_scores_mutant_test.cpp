#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cuda/kernels/index_scores_testing.h"

// Wrong kernels: the emulator must notice those whose threads do not meet, the verdict the others.
namespace mlacheck::kernels::testing {
namespace {

using device::Element;
using emulator::CallSite;
using emulator::Mutation;
using emulator::Primitive;

std::string place_of(const CallSite& site) {
  return std::filesystem::path(site.file).filename().string() + ":" + std::to_string(site.line) +
         " " + std::string(name_of(site.primitive));
}

// Rows enough that the rings wrap around, in items of two or of one, some with keys of one warp
// alone.
ScoreOutcome run(std::uint32_t item_rows, std::vector<Mutation> mutations, bool list_call_sites,
                 int launches = 1) {
  IndexProblem problem(item_rows == 1 ? 26 : 8, 48, 128, Element::f16);
  problem.launches = launches;
  for (std::int64_t i = 0; i < problem.tokens; ++i) {
    constexpr std::int32_t kBegin[] = {0, 0, 64, 0, 100, 0, 0, 0};
    constexpr std::int32_t kEnd[] = {128, 40, 128, 0, 128, 128, 1, 128};
    problem.begin.push_back(kBegin[i % 8]);
    problem.end.push_back(kEnd[i % 8]);
  }
  emulator::SessionOptions options;
  options.mutations = std::move(mutations);
  options.list_call_sites = list_call_sites;
  return problem.run(cut(problem, item_rows, 2), options);
}

// What can be done to a call: leave it out, or change its amount.
std::vector<std::int32_t> amounts(Primitive primitive) {
  switch (primitive) {
    case Primitive::initialise:
      return {0, 1, -1};
    case Primitive::arrive_expecting:
    case Primitive::copy_bulk:
      return {0, 16, -16};
    case Primitive::wait:
      return {0, 1};
    default:
      return {0};
  }
}

class IndexScoresMutants : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(IndexScoresMutants, AreNoticedByTheEmulator) {
  const ScoreOutcome clean = run(GetParam(), {}, true);
  ASSERT_EQ(text_of(clean.reports), "");
  std::set<Primitive> seen;
  ASSERT_EQ(text_of(run(GetParam(), {}, false, 2).reports), "");
  for (const CallSite& site : clean.call_sites) {
    seen.insert(site.primitive);
    // What waits for the kernel before must have one.
    const int launches = site.primitive == Primitive::wait_for_previous_kernel ? 2 : 1;
    for (const std::int32_t amount : amounts(site.primitive))
      EXPECT_FALSE(run(GetParam(), {{site, amount}}, false, launches).reports.empty())
          << place_of(site)
          << (amount == 0 ? " left out" : " changed by " + std::to_string(amount));
  }
  for (const Primitive primitive :
       {Primitive::initialise, Primitive::publish_barriers, Primitive::sync_block, Primitive::wait,
        Primitive::arrive, Primitive::arrive_expecting, Primitive::copy_bulk, Primitive::sync_warp})
    EXPECT_TRUE(seen.contains(primitive)) << name_of(primitive);
}
INSTANTIATE_TEST_SUITE_P(ItemRows, IndexScoresMutants, ::testing::Values(1u, 2u));

// The verdict on what the kernel makes of wrong arguments.
template <class Change>
Status verdict_on(const IndexProblem& problem, Change change) {
  const ScoreOutcome outcome = problem.run(problem.plan(), {}, change);
  EXPECT_EQ(text_of(outcome.reports), "");
  return problem.judge(outcome.scores).status;
}

class WrongArguments : public ::testing::Test {
 protected:
  WrongArguments() : problem_(4, 32, 100, Element::bf16) {
    problem_.begin = {0, 10, 0, 50};
    problem_.end = {100, 90, 1, 99};
    problem_.paginate(16, 2);
    EXPECT_EQ(verdict_on(problem_, [](IndexScoresArguments&) {}), Status::pass);
  }
  IndexProblem problem_;
};

TEST_F(WrongArguments, TheNeighbourHeadsWeights) {
  std::vector<float> weights = problem_.weights;
  std::rotate(weights.begin(), weights.begin() + 1, weights.end());
  IndexProblem wrong = problem_;
  wrong.weights = weights;
  EXPECT_EQ(problem_.judge(wrong.run(wrong.plan()).scores).status, Status::fail);
}

TEST_F(WrongArguments, AHeadDropped) {
  IndexProblem wrong = problem_;
  wrong.weights[31] = 0;
  EXPECT_EQ(problem_.judge(wrong.run(wrong.plan()).scores).status, Status::fail);
}

TEST_F(WrongArguments, AKeyTakenForItsNeighbourAtTheEdgeOfAPage) {
  EXPECT_EQ(
      verdict_on(problem_, [](IndexScoresArguments& a) { a.page_size = device::Divisor(15); }),
      Status::fail);
}

TEST_F(WrongArguments, TheRowOfAnotherRequest) {
  EXPECT_EQ(verdict_on(problem_, [](IndexScoresArguments& a) { a.request = nullptr; }),
            Status::fail);
}

TEST_F(WrongArguments, ARangeThatEndsOrBeginsOneKeyOff) {
  for (const std::int32_t by : {-1, 1})
    for (const bool at_end : {false, true}) {
      IndexProblem wrong = problem_;
      (at_end ? wrong.end : wrong.begin)[1] += by;
      EXPECT_EQ(problem_.judge(wrong.run(wrong.plan()).scores).status, Status::fail)
          << by << at_end;
    }
}

// The formula with a fault, in fp64.
TEST_F(WrongArguments, NoReluOrTheReluOfTheSum) {
  for (const bool of_the_sum : {false, true}) {
    std::vector<float> scores = problem_.run(problem_.plan()).scores;
    for (std::int64_t t = 0; t < problem_.tokens; ++t)
      for (std::int64_t s = problem_.begin_of(t); s < problem_.end_of(t); ++s) {
        double score = 0;
        for (std::int64_t h = 0; h < problem_.heads; ++h) {
          double dot = 0;
          for (std::int64_t d = 0; d < kIndexDim; ++d)
            dot += double{to_float(Bf16{problem_.q[static_cast<std::size_t>(
                       (t * problem_.heads + h) * kIndexDim + d)]})} *
                   double{to_float(Bf16{problem_.key(t, s)[d]})};
          score += double{problem_.weights[static_cast<std::size_t>(t * problem_.heads + h)]} * dot;
        }
        scores[static_cast<std::size_t>(t * problem_.key_count + s)] =
            static_cast<float>(of_the_sum ? std::max(score, 0.0) : score);
      }
    EXPECT_EQ(problem_.judge(scores).status, Status::fail);
  }
}

}  // namespace
}  // namespace mlacheck::kernels::testing
