#include "property_tests/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fixtures/temporary_folder.h"
#include "property_tests/campaign_testing.h"

namespace mlacheck {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::set<std::string> tried_by(const CampaignPlan& plan) {
  Watcher watcher;
  const std::vector<Contestant> kernels = {top_k_kernel([](auto&) { return Status::pass; })};
  run_campaign(kernels, plan, watcher);
  std::set<std::string> lines;
  for (const Recipe& recipe : watcher.tried) lines.insert(minimal(recipe));
  return lines;
}

TEST(Campaign, ShardsShareNoCaseAndMissNone) {
  const std::set<std::string> all = tried_by(plan_of(90));
  EXPECT_THAT(all, SizeIs(90));
  std::set<std::string> parts;
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    CampaignPlan plan = plan_of(30);
    plan.shard = shard;
    plan.shards = 3;
    for (const std::string& line : tried_by(plan)) EXPECT_TRUE(parts.insert(line).second) << line;
  }
  EXPECT_EQ(parts, all);
  CampaignPlan other = plan_of(90);
  other.seed = 2;
  for (const std::string& line : tried_by(other)) EXPECT_FALSE(all.contains(line)) << line;
}

TEST(Campaign, ShrinksAFailureOnceAndGoesOn) {
  const TemporaryFolder folder;
  RegressionFile regressions(folder / "r.txt");
  CampaignPlan plan = plan_of(200);
  plan.regressions = &regressions;
  Watcher watcher;
  const std::vector<Contestant> kernels = {
      top_k_kernel([](const TopKRecipe& r) { return r.topk >= 3 ? Status::fail : Status::pass; })};
  const auto records = run_campaign(kernels, plan, watcher);
  ASSERT_THAT(records, SizeIs(1));
  ASSERT_THAT(records[0].failures, SizeIs(1));
  const Failure& failure = records[0].failures[0];
  EXPECT_EQ(std::get<TopKRecipe>(failure.shrunk.recipe).topk, 3);
  EXPECT_TRUE(failure.shrunk.minimal);
  EXPECT_GT(failure.cases, 50);
  EXPECT_EQ(records[0].coverage.judged(), 200);
  EXPECT_THAT(watcher.events,
              ElementsAre("found mine:kernel out", "shrunk to " + minimal(failure.shrunk.recipe)));
  EXPECT_THAT(RegressionFile(folder / "r.txt").recipes(), ElementsAre(failure.shrunk.recipe));
  const auto results = verdicts(records[0], true);
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_EQ(results[0].status, Status::fail);
  EXPECT_EQ(results[0].repro, "repeat " + minimal(failure.shrunk.recipe));
  EXPECT_THAT(results[0].detail, HasSubstr("cases, first by repeat mlacheck1 op=top_k"));

  // The next campaign tries it first.
  Watcher next;
  RegressionFile again(folder / "r.txt");
  plan.regressions = &again;
  plan.cases = 5;
  run_campaign(kernels, plan, next);
  EXPECT_EQ(next.tried[0], failure.shrunk.recipe);
}

TEST(Campaign, KeepsAFailureThatTheRegressionFileDoesNotGet) {
  const TemporaryFolder folder;
  RegressionFile regressions(folder / "nowhere/r.txt");
  CampaignPlan plan = plan_of(20);
  plan.regressions = &regressions;
  Watcher watcher;
  const std::vector<Contestant> kernels = {top_k_kernel([](auto&) { return Status::fail; })};
  const auto records = run_campaign(kernels, plan, watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::fail);
  EXPECT_EQ(records[0].coverage.judged(), 20);
  EXPECT_THAT(watcher.events.back(), AllOf(HasSubstr("not appended"), HasSubstr("No such file")));
}

TEST(Campaign, StopsOnTheFirstFailureWhenAsked) {
  CampaignPlan plan = plan_of(200);
  plan.stop_on_first = true;
  Watcher watcher;
  const std::vector<Contestant> kernels = {top_k_kernel([](auto&) { return Status::crashed; })};
  const auto records = run_campaign(kernels, plan, watcher);
  EXPECT_EQ(records[0].coverage.judged(), 1);
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::crashed);
}

// Two outputs that one fault spoils are one failure; a fault of its own is another.
TEST(Campaign, ChecksThatFailTogetherAreOneFailure) {
  const Contestant kernel{
      "mine:kernel",
      MLACHECK_TOP_K,
      [](const Recipe& recipe) -> std::vector<CheckResult> {
        const auto r = std::get<TopKRecipe>(recipe);
        const bool both = r.topk > 5, second_run = r.tokens > 2;
        return {result(both ? Status::fail : Status::pass, recipe, "out"),
                result(both ? Status::fail : Status::pass, recipe, "lse"),
                result(second_run ? Status::fail : Status::pass, recipe, "second run")};
      },
      nullptr,
      nullptr,
      [](std::span<const Recipe>, double) { return std::string("as if members were lost"); },
      nullptr};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(100), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(2));
  EXPECT_THAT(records[0].failures[0].also.size() + records[0].failures[1].also.size(), 1);
  EXPECT_THAT(verdicts(records[0], true)[0].detail, HasSubstr("as if members were lost"));
}

TEST(Campaign, EndsWhenItIsTold) {
  Watcher watcher;
  watcher.most = 7;
  const std::vector<Contestant> kernels = {top_k_kernel([](auto&) { return Status::fail; })};
  const auto records = run_campaign(kernels, plan_of(100), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  EXPECT_FALSE(records[0].failures[0].shrunk.minimal);
  EXPECT_THAT(watcher.tried, SizeIs(7));

  // What was under way is not judged: its process was told to stop too.
  Watcher at_once;
  at_once.most = 1;
  const auto none = run_campaign(kernels, plan_of(100), at_once);
  EXPECT_THAT(none[0].failures, IsEmpty());
}

TEST(Campaign, PutsNoLawToACaseThatFails) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::fail; });
  int asked = 0;
  kernel.laws = [&](const Recipe&, std::string_view) -> std::vector<CheckResult> {
    ++asked;
    return {};
  };
  Watcher watcher;
  run_campaign({&kernel, 1}, plan_of(2 * kLawsEvery), watcher);
  EXPECT_EQ(asked, 0);
}

// A failure is shrunk by its own law alone.
TEST(Campaign, PutsLawsToSomeCasesAndShrinksByThem) {
  Contestant kernel = top_k_kernel([](auto&) { return Status::pass; });
  int asked = 0, asked_one = 0;
  kernel.laws = [&](const Recipe& recipe, std::string_view only) -> std::vector<CheckResult> {
    ++(only.empty() ? asked : asked_one);
    const bool broken = std::get<TopKRecipe>(recipe).topk >= 3;
    const CheckResult law = result(broken ? Status::fail : Status::pass, recipe, "law");
    if (only == law.name) return {law};
    EXPECT_EQ(only, "");
    return {law, result(broken ? Status::fail : Status::pass, recipe, "other law")};
  };
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(8 * kLawsEvery), watcher);
  ASSERT_THAT(records[0].failures, SizeIs(1));
  const Failure& failure = records[0].failures[0];
  EXPECT_EQ(failure.result.name, "mine:kernel law");
  EXPECT_EQ(std::get<TopKRecipe>(failure.shrunk.recipe).topk, 3);
  EXPECT_THAT(failure.also, ElementsAre("mine:kernel other law"));
  EXPECT_EQ(records[0].coverage.judged(), 8 * kLawsEvery);
  EXPECT_EQ(asked_one, failure.shrunk.trials);
  EXPECT_NEAR(asked, 8, 6);
}

TEST(Campaign, GivesEveryShardItsShareOfLaws) {
  const auto asked_by = [](std::int64_t shard, std::int64_t shards) {
    Contestant kernel = top_k_kernel([](auto&) { return Status::pass; });
    int asked = 0;
    kernel.laws = [&](const Recipe&, std::string_view) {
      ++asked;
      return std::vector<CheckResult>();
    };
    Watcher watcher;
    CampaignPlan plan = plan_of(40 * kLawsEvery / shards);
    plan.shard = shard;
    plan.shards = shards;
    run_campaign({&kernel, 1}, plan, watcher);
    return asked;
  };
  int together = 0;
  for (std::int64_t shard = 0; shard < 4; ++shard) {
    EXPECT_GT(asked_by(shard, 4), 3);
    together += asked_by(shard, 4);
  }
  EXPECT_EQ(together, asked_by(0, 1));
}

// Rare by its nature: one that another seed does not show is only counted.
TEST(Campaign, AsksAnotherSeedOfAnImprobable) {
  Watcher watcher;
  const auto by_seed = top_k_kernel(
      [](const TopKRecipe& r) { return r.seed % 2 == 0 ? Status::improbable : Status::pass; });
  const auto strays = run_campaign({&by_seed, 1}, plan_of(100), watcher);
  EXPECT_THAT(strays[0].failures, IsEmpty());
  EXPECT_GT(strays[0].improbable, 20);
  EXPECT_EQ(verdicts(strays[0], true)[0].status, Status::improbable);
  EXPECT_THAT(verdicts(strays[0], true)[0].detail, HasSubstr("IMPROBABLE on one seed, 0 allowed"));

  const auto always = top_k_kernel([](auto&) { return Status::improbable; });
  const auto repeated = run_campaign({&always, 1}, plan_of(100), watcher);
  ASSERT_THAT(repeated[0].failures, SizeIs(1));
  EXPECT_EQ(repeated[0].failures[0].result.status, Status::improbable);
}

TEST(Campaign, AllowsAsManyImprobableAsTheirRateGives) {
  EXPECT_EQ(improbable_allowance(0), 0);
  EXPECT_EQ(improbable_allowance(1000), 1);
  EXPECT_EQ(improbable_allowance(500'000'000), 9);         // mean 1
  EXPECT_EQ(improbable_allowance(50'000'000'000), 151);    // mean 100
  EXPECT_EQ(improbable_allowance(500'000'000'000), 1159);  // mean 1000: near normal
}

TEST(Campaign, AKernelThatRefusesAllIsRefused) {
  Watcher watcher;
  const auto kernel = top_k_kernel([](auto&) { return Status::refused; });
  const auto records = run_campaign({&kernel, 1}, plan_of(10), watcher);
  EXPECT_EQ(verdicts(records[0], true)[0].status, Status::refused);
  EXPECT_EQ(verdicts(records[0], true)[0].detail, "all of 10 cases");
}

TEST(Campaign, MistrustsItselfWhereNoCaseWouldHaveShownAnError) {
  Watcher watcher;
  const auto kernel = top_k_kernel([](auto&) { return Status::pass; });
  const auto few = run_campaign({&kernel, 1}, plan_of(1), watcher);
  EXPECT_EQ(verdicts(few[0], true)[0].status, Status::mistrusted);
  EXPECT_THAT(verdicts(few[0], true)[0].detail,
              HasSubstr("no case would have shown these errors; more cases may:\n  "));
  EXPECT_EQ(verdicts(few[0], false)[0].status, Status::pass);
  const auto many = run_campaign({&kernel, 1}, plan_of(200), watcher);
  EXPECT_EQ(verdicts(many[0], true)[0].status, Status::pass);

  CampaignPlan given;
  given.draws = false;
  given.given = {parse_recipe("mlacheck1 op=top_k t=0")};
  const auto blind = run_campaign({&kernel, 1}, given, watcher);
  EXPECT_EQ(verdicts(blind[0], false)[0].status, Status::mistrusted);
}

// A kernel that flushes subnormals, where all of an output is one: zeros would pass.
TEST(Campaign, MistrustsAKernelOfWhichACheckIsNeverMoreThanMistrusted) {
  Watcher watcher;
  const auto of = [&](std::int64_t trusted_from) {
    const Contestant kernel{
        "mine:kernel", MLACHECK_TOP_K, [=](const Recipe& recipe) -> std::vector<CheckResult> {
          const bool trusted = std::get<TopKRecipe>(recipe).topk >= trusted_from;
          return {result(trusted ? Status::pass : Status::mistrusted, recipe, "out"),
                  result(Status::pass, recipe, "lse")};
        }};
    return verdicts(run_campaign({&kernel, 1}, plan_of(300), watcher)[0], true)[0];
  };
  EXPECT_EQ(of(2).status, Status::pass);
  const CheckResult never = of(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(never.status, Status::mistrusted);
  EXPECT_THAT(never.detail, HasSubstr("never more than MISTRUSTED: mine:kernel out"));
}

TEST(Campaign, RecordsTheLargestBudgetUsed) {
  const Contestant kernel{
      "mine:kernel", MLACHECK_TOP_K, [](const Recipe& recipe) -> std::vector<CheckResult> {
        const double used = std::get<TopKRecipe>(recipe).fill == ScoreFill::nan ? 0.75 : 0.5;
        return {result(Status::pass, recipe, "out", 10, used)};
      }};
  Watcher watcher;
  const auto records = run_campaign({&kernel, 1}, plan_of(300), watcher);
  EXPECT_EQ(records[0].budget_used, 0.75);
  EXPECT_THAT(records[0].budget_used_by, HasSubstr("fill=nan"));
  EXPECT_EQ(records[0].elements, 3000);
  EXPECT_THAT(verdicts(records[0], true)[0].detail, HasSubstr("3000 elements, budget used 75 %"));
}

}  // namespace
}  // namespace mlacheck
