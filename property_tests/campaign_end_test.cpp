// What ends a campaign for a kernel: its library hangs, or the time is over.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "property_tests/campaign_testing.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A library, of which every call after one that hangs gives what it says of that.
struct HangingLibrary {
  bool hung = false;
  int calls = 0;

  using Hangs = std::function<bool(const TopKRecipe&)>;
  Contestant kernel(const std::string& name, const Hangs& hangs, Status otherwise = Status::pass) {
    Contestant kernel;
    kernel.name = name;
    kernel.op = MLACHECK_TOP_K;
    kernel.trial = [=, this](const Recipe& recipe) {
      return std::vector{call(recipe, "out", hangs, otherwise)};
    };
    kernel.laws = [=, this](const Recipe& recipe) {
      return std::vector{call(recipe, "law", hangs), call(recipe, "other law", hangs)};
    };
    kernel.explain = [this](std::span<const Recipe>) {
      ++calls;
      return std::string("as if");
    };
    kernel.hung = [this] { return hung; };
    return kernel;
  }
  CheckResult call(const Recipe& recipe, const std::string& check, const Hangs& hangs,
                   Status otherwise = Status::pass) {
    ++calls;
    CheckResult crashed = result(Status::crashed, recipe, check);
    crashed.detail = hung ? "not called again after it hung" : "no answer in 1 s";
    hung = hung || hangs(std::get<TopKRecipe>(recipe));
    return hung ? crashed : result(otherwise, recipe, check);
  }
};

// Its library is not called again: no law is put, nothing is shrunk and nothing explained by what that
// says.
TEST(Campaign, EndsForAKernelThatHung) {
  HangingLibrary library;
  const Contestant kernel = library.kernel("mine:kernel", [](auto&) { return true; });
  CampaignPlan plan = plan_of(100);
  plan.given = {parse_recipe("mlacheck1 op=top_k t=3")};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan, watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(records[0].failures[0].result.detail, "no answer in 1 s");
  EXPECT_EQ(records[0].failures[0].shrunk.recipe, plan.given[0]);
  EXPECT_EQ(library.calls, 1);
  EXPECT_THAT(watcher.events, ElementsAre("hung mine:kernel out"));
  const auto results = verdicts(records[0], true);
  EXPECT_EQ(results[0].repro, "repeat " + minimal(plan.given[0]));
  EXPECT_THAT(results[0].detail, HasSubstr("not shrunk: its library hung"));
}

TEST(Campaign, KeepsAHangOfALawOnce) {
  HangingLibrary library;
  Contestant kernel = library.kernel("mine:kernel", [](auto&) { return true; });
  kernel.trial = [](const Recipe& recipe) { return std::vector{result(Status::pass, recipe)}; };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(4 * kLawsEvery), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(records[0].failures[0].result.name, "mine:kernel law");
  EXPECT_EQ(records[0].failures[0].result.detail, "no answer in 1 s");
}

// By its own recipe; what was shrunk stays as small as it had become.
TEST(Campaign, KeepsAHangThatShrinkingMeets) {
  HangingLibrary library;
  const Contestant kernel = library.kernel(
      "mine:kernel", [](const TopKRecipe& r) { return r.topk < 3; }, Status::fail);
  CampaignPlan plan;
  plan.draws = false;
  plan.given = {parse_recipe("mlacheck1 op=top_k t=3 k=64")};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan, watcher);
  ASSERT_THAT(records[0].failures, SizeIs(2));
  EXPECT_EQ(records[0].failures[0].result.status, Status::crashed);
  EXPECT_LT(std::get<TopKRecipe>(records[0].failures[0].shrunk.recipe).topk, 3);
  EXPECT_EQ(records[0].failures[1].result.status, Status::fail);
  EXPECT_GE(std::get<TopKRecipe>(records[0].failures[1].shrunk.recipe).topk, 3);
  EXPECT_FALSE(records[0].failures[1].shrunk.minimal);
  EXPECT_EQ(records[0].failures[1].explanation, "");
}

TEST(Campaign, RetiresTheOtherKernelsOfALibraryThatHung) {
  HangingLibrary library;
  int cases = 0;
  const std::vector<Contestant> kernels = {
      library.kernel("mine:right", [](auto&) { return false; }),
      library.kernel("mine:kernel", [&](auto&) { return ++cases == 60; }),
      top_k_kernel([](auto&) { return Status::pass; })};
  Watcher watcher;
  const auto records = run_campaign(kernels, plan_of(1000), watcher);
  EXPECT_THAT(records[0].failures, IsEmpty());
  EXPECT_EQ(verdicts(records[0], false)[0].status, Status::mistrusted);
  EXPECT_THAT(
      verdicts(records[0], false)[0].detail,
      HasSubstr("retired after " + std::to_string(records[0].coverage.judged()) + " cases"));
  EXPECT_THAT(records[1].failures, SizeIs(1));
  EXPECT_EQ(verdicts(records[2], true)[0].status, Status::pass);

  HangingLibrary at_once;
  const std::vector<Contestant> two = {at_once.kernel("mine:kernel", [](auto&) { return true; }),
                                       at_once.kernel("mine:late", [](auto&) { return false; })};
  const auto late = run_campaign(two, plan_of(10), watcher);
  EXPECT_EQ(verdicts(late[1], true)[0].status, Status::skipped);
  EXPECT_EQ(verdicts(late[1], true)[0].detail, "retired after 0 cases: its library hung");
}

// A kernel writes what it likes into its answers: that is no hang.
TEST(Campaign, AsksNoTextWhetherAKernelHung) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::pass; });
  kernel.trial = [](const Recipe& recipe) {
    CheckResult crashed = result(Status::crashed, recipe);
    crashed.detail = "a broken answer: 'done not called again'";
    return std::vector{crashed};
  };
  kernel.hung = [] { return false; };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(10), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(records[0].failures[0].cases, 10);
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::crashed);
}

TEST(Campaign, KeepsAHangOfAskingWhatIsSupported) {
  bool hung = false;
  Contestant kernel = top_k_kernel([](auto&) { return Status::refused; });
  kernel.supports = [&](const Recipe&) { return !(hung = true); };
  kernel.hung = [&] { return hung; };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(10), watcher);
  EXPECT_THAT(watcher.tried, SizeIs(1));
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::crashed);
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

// It asks of many cases.
TEST(Campaign, AsksNothingOfSupportAfterItsSeconds) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::refused; });
  int asked = 0;
  kernel.supports = [&](const Recipe&) {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return false;
  };
  CampaignPlan plan = plan_of(100);
  plan.seconds = 0.01;
  Watcher watcher;
  run_campaign({&kernel, 1}, plan, watcher);
  EXPECT_LE(asked, 1);
}

}  // namespace
}  // namespace mlacheck
