// What ends a campaign for a kernel: its library hangs, or the time is over.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cuda/plugin/kernel_process_pool.h"
#include "property_tests/campaign_testing.h"

namespace mlacheck {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A library that is called until it has hung kMostHangs times.
struct HangingLibrary {
  std::int64_t hangs = 0;
  int calls = 0;

  using Hangs = std::function<bool(const TopKRecipe&)>;
  Contestant kernel(const std::string& name, const Hangs& is_hang,
                    Status otherwise = Status::pass) {
    Contestant kernel;
    kernel.name = name;
    kernel.op = MLACHECK_TOP_K;
    kernel.trial = [=, this](const Recipe& recipe) {
      return std::vector{call(recipe, "out", is_hang, otherwise)};
    };
    kernel.laws = [=, this](const Recipe& recipe, std::string_view) {
      return std::vector{call(recipe, "law", is_hang)};
    };
    kernel.explain = [this](std::span<const Recipe>, double) {
      ++calls;
      return std::string("as if");
    };
    kernel.hangs = [this] { return hangs; };
    return kernel;
  }
  CheckResult call(const Recipe& recipe, const std::string& check, const Hangs& is_hang,
                   Status otherwise = Status::pass) {
    EXPECT_LT(hangs, kMostHangs);
    ++calls;
    CheckResult said = result(otherwise, recipe, check);
    if (!is_hang(std::get<TopKRecipe>(recipe))) return said;
    ++hangs;
    said = result(Status::crashed, recipe, check);
    said.detail = "no answer in 1 s";
    said.hung = true;
    return said;
  }
};

// No law is put, nothing is shrunk and nothing explained by what a hang says; each is kept.
TEST(Campaign, EndsForALibraryThatHungTooOften) {
  HangingLibrary library;
  const Contestant kernel = library.kernel("mine:kernel", [](auto&) { return true; });
  CampaignPlan plan = plan_of(100);
  plan.given = {parse_recipe("mlacheck1 op=top_k t=3")};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan, watcher);
  ASSERT_THAT(records[0].failures, SizeIs(kMostHangs));
  EXPECT_EQ(records[0].failures[0].result.detail, "no answer in 1 s");
  EXPECT_EQ(records[0].failures[0].shrunk.recipe, plan.given[0]);
  EXPECT_EQ(library.calls, kMostHangs);
  EXPECT_THAT(watcher.events,
              ElementsAre("hung mine:kernel out", "hung mine:kernel out", "hung mine:kernel out"));
  const auto results = verdicts(records[0], true);
  EXPECT_EQ(results[0].repro, "repeat " + minimal(plan.given[0]));
  EXPECT_THAT(results[0].detail, HasSubstr("not shrunk: it hung"));
  EXPECT_THAT(results[2].detail, HasSubstr("retired after 3 cases: its library hung 3 times"));
}

TEST(Campaign, GoesOnAfterAHang) {
  HangingLibrary library;
  int cases = 0;
  const Contestant kernel =
      library.kernel("mine:kernel", [&](auto&) { return ++cases == 2 || cases == 70; });
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(100), watcher);
  EXPECT_THAT(records[0].failures, SizeIs(2));
  EXPECT_GE(records[0].coverage.judged(), 98);
  EXPECT_FALSE(records[0].retired);
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::crashed);
}

TEST(Campaign, KeepsAHangOfALaw) {
  HangingLibrary library;
  Contestant kernel = library.kernel("mine:kernel", [&](auto&) { return library.hangs == 0; });
  kernel.trial = [](const Recipe& recipe) { return std::vector{result(Status::pass, recipe)}; };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(4 * kLawsEvery), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(records[0].failures[0].result.name, "mine:kernel law");
  EXPECT_EQ(records[0].failures[0].result.detail, "no answer in 1 s");
}

// By its own recipe; what was shrunk stays as small as it had become.
TEST(Campaign, KeepsHangsThatShrinkingMeets) {
  HangingLibrary library;
  const Contestant kernel = library.kernel(
      "mine:kernel", [](const TopKRecipe& r) { return r.topk < 3; }, Status::fail);
  CampaignPlan plan;
  plan.draws = false;
  plan.given = {parse_recipe("mlacheck1 op=top_k t=3 k=64")};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan, watcher);
  ASSERT_THAT(records[0].failures, SizeIs(kMostHangs + 1));
  EXPECT_EQ(records[0].failures[0].result.status, Status::crashed);
  EXPECT_LT(std::get<TopKRecipe>(records[0].failures[0].shrunk.recipe).topk, 3);
  const Failure& shrunk = records[0].failures.back();
  EXPECT_EQ(shrunk.result.status, Status::fail);
  EXPECT_GE(std::get<TopKRecipe>(shrunk.shrunk.recipe).topk, 3);
  EXPECT_FALSE(shrunk.shrunk.minimal);
  EXPECT_EQ(shrunk.explanation, "");
}

TEST(Campaign, RetiresTheOtherKernelsOfALibraryThatHung) {
  HangingLibrary library;
  int cases = 0;
  const std::vector<Contestant> kernels = {
      library.kernel("mine:right", [](auto&) { return false; }),
      library.kernel("mine:kernel", [&](auto&) { return ++cases >= 60; }),
      top_k_kernel([](auto&) { return Status::pass; })};
  Watcher watcher;
  const auto records = run_campaign(kernels, plan_of(1000), watcher);
  EXPECT_THAT(records[0].failures, IsEmpty());
  EXPECT_EQ(verdicts(records[0], false)[0].status, Status::mistrusted);
  EXPECT_THAT(
      verdicts(records[0], false)[0].detail,
      HasSubstr("retired after " + std::to_string(records[0].coverage.judged()) + " cases"));
  EXPECT_THAT(records[1].failures, SizeIs(kMostHangs));
  EXPECT_EQ(verdicts(records[2], true)[0].status, Status::pass);

  HangingLibrary at_once;
  CampaignPlan plan = plan_of(10);
  plan.given = std::vector(3, parse_recipe("mlacheck1 op=top_k t=3"));
  const std::vector<Contestant> two = {at_once.kernel("mine:kernel", [](auto&) { return true; }),
                                       library.kernel("mine:late", [](auto&) { return false; })};
  const auto late = run_campaign(two, plan, watcher);
  EXPECT_EQ(verdicts(late[1], true)[0].status, Status::skipped);
  EXPECT_EQ(verdicts(late[1], true)[0].detail, "retired after 0 cases: its library hung 3 times");
}

// A kernel writes what it likes into its answers: that is no hang.
TEST(Campaign, AsksNoTextWhetherAKernelHung) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::pass; });
  kernel.trial = [](const Recipe& recipe) {
    CheckResult crashed = result(Status::crashed, recipe);
    crashed.detail = "a broken answer: 'done not called again'";
    return std::vector{crashed};
  };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(10), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(records[0].failures[0].cases, 10);
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::crashed);
}

// By the recipe that it was asked of, which no case may ever be.
TEST(Campaign, KeepsAHangOrACrashOfAskingWhatIsSupported) {
  for (const bool hangs : {true, false}) {
    std::int64_t hung = 0;
    Contestant kernel = top_k_kernel(
        [](const TopKRecipe& r) { return r.topk == 512 ? Status::crashed : Status::refused; });
    kernel.supports = [&](const Recipe& recipe) {
      const bool is_wrong = std::get<TopKRecipe>(recipe).topk == 512;
      hung += is_wrong && hangs ? 1 : 0;
      CheckResult answer = result(is_wrong ? Status::crashed : Status::refused, recipe);
      answer.hung = is_wrong && hangs;
      return answer;
    };
    kernel.hangs = [&] { return hung; };
    Watcher watcher;
    const auto records = run_campaign({&kernel, 1}, plan_of(1), watcher);
    ASSERT_THAT(records[0].failures, SizeIs(1));
    const Failure& failure = records[0].failures[0];
    EXPECT_EQ(failure.result.status, Status::crashed);
    EXPECT_EQ(failure.hung, hangs);
    EXPECT_EQ(std::get<TopKRecipe>(failure.shrunk.recipe).topk, 512);
    EXPECT_EQ(failure.shrunk.minimal, !hangs);
  }
}

// Shrinking takes its seconds once past the campaign's, however many failures the last case has.
TEST(Campaign, ShrinksNothingLongAfterItsSeconds) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::fail; });
  kernel.trial = [](const Recipe& recipe) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::vector{result(Status::fail, recipe, "out"), result(Status::fail, recipe, "lse")};
  };
  CampaignPlan plan = plan_of(100);
  plan.seconds = 0.01;
  plan.shrinking.seconds = 0.005;
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan, watcher);
  EXPECT_THAT(watcher.tried, SizeIs(1));
  ASSERT_THAT(records[0].failures, SizeIs(2));
  EXPECT_THAT(verdicts(records[0], true)[0].detail, HasSubstr("not shrunk: the time was over"));
}

// By what the kernel took for a smaller one; a small one follows.
TEST(Campaign, LeavesOutWhatWouldTakeLongerThanIsLeft) {
  int laws = 0;
  Contestant kernel = top_k_kernel([](const TopKRecipe& r) {
    if (r.tokens == 16) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return Status::pass;
  });
  kernel.laws = [&](const Recipe&, std::string_view) {
    ++laws;
    return std::vector<CheckResult>{};
  };
  CampaignPlan plan;
  plan.draws = false;
  plan.seconds = 1.5;
  for (const char* line : {"mlacheck1 op=top_k t=16 n=65536", "mlacheck1 op=top_k t=64 n=65536",
                           "mlacheck1 op=top_k t=3 n=64 k=3"})
    plan.given.push_back(parse_recipe(line));
  Watcher watcher;
  run_campaign({&kernel, 1}, plan, watcher);
  EXPECT_THAT(watcher.events, ElementsAre("ran out, 2 left out"));  // the laws of the first one too
  EXPECT_EQ(laws, 1);
  EXPECT_THAT(watcher.tried, ElementsAre(plan.given[0], plan.given[2], plan.given[2]));
}

// What hangs late has no time to be seen to hang: that is no PASS.
TEST(Campaign, TrustsNoKernelWhoseCallWasGivenUpWhenTheTimeWasOver) {
  for (const int answered : {0, 30}) {
    Watcher watcher;
    const auto kernel_of = [&](const std::string& name, int answers) {
      int cases = 0;
      Contestant kernel = top_k_kernel([=, &watcher](auto&) mutable {
        if (++cases <= answers) return Status::pass;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        watcher.most = 0;
        return Status::crashed;  // as it is killed
      });
      kernel.name = name;
      kernel.repro = [](const Recipe& recipe) { return "repeat " + minimal(recipe); };
      return kernel;
    };
    const std::vector<Contestant> kernels = {kernel_of("mine:kernel", answered),
                                             kernel_of("mine:right", 1000)};
    CampaignPlan plan = plan_of(1000);
    plan.seconds = 0.3;
    const auto records = run_campaign(kernels, plan, watcher);
    const auto results = verdicts(records[0], false);
    ASSERT_THAT(results, SizeIs(1));
    EXPECT_EQ(results[0].status, Status::mistrusted);
    EXPECT_THAT(results[0].detail, ContainsRegex("given up when the time was over, after 0.[3-9] "
                                                 "s: repeat mlacheck1 op=top_k"));
    EXPECT_THAT(verdicts(records[1], false)[0].detail, Not(HasSubstr("given up")));
  }
}

// Those that are given are to be tried: what was recorded, say.
TEST(Campaign, TrustsNoKernelThatWasNotPutToAllGivenRecipes) {
  CampaignPlan plan;
  plan.draws = false;
  plan.seconds = 0.05;
  const Recipe other = parse_recipe("mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256");
  plan.given = {other, parse_recipe("mlacheck1 op=top_k t=3"),
                parse_recipe("mlacheck1 op=top_k t=3"), other};
  const std::vector<Contestant> kernels = {top_k_kernel([](auto&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return Status::pass;
  })};
  Watcher watcher;
  const auto records = run_campaign(kernels, plan, watcher);
  EXPECT_EQ(records[0].untried, 1);
  EXPECT_EQ(verdicts(records[0], false)[0].status, Status::mistrusted);
  EXPECT_THAT(verdicts(records[0], false)[0].detail, HasSubstr("no time was left for 1 given"));
}

// It asks of many cases.
TEST(Campaign, AsksNothingOfSupportAfterItsSeconds) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::refused; });
  int asked = 0;
  kernel.supports = [&](const Recipe&) {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return result(Status::refused, parse_recipe("mlacheck1 op=top_k"));
  };
  CampaignPlan plan = plan_of(100);
  plan.seconds = 0.01;
  Watcher watcher;
  run_campaign({&kernel, 1}, plan, watcher);
  EXPECT_LE(asked, 1);
}

}  // namespace
}  // namespace mlacheck
