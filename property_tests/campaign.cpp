#include "property_tests/campaign.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "fixtures/counter_random.h"
#include "tools/stopwatch.h"

namespace mlacheck {
namespace {

bool is_bad(Status status) { return status >= Status::improbable; }

// What kernel_worker.h says of a call after one that hung.
constexpr std::string_view kNotCalled = "not called again";

bool was_judged(const std::vector<CheckResult>& results) {
  return std::ranges::any_of(results, [](const CheckResult& result) {
    return result.status != Status::refused && result.status != Status::skipped;
  });
}

Recipe on_another_seed(Recipe recipe) {
  std::visit([](auto& r) { ++r.seed; }, recipe);
  return recipe;
}

// Of a number alone, so that every shard has its share, and the shards together what one has.
bool gets_laws(std::int64_t number) {
  return mix64(static_cast<std::uint64_t>(number)) % std::uint64_t{kLawsEvery} == 0;
}

class Campaign {
 public:
  Campaign(std::span<const Contestant> contestants, const CampaignPlan& plan,
           CampaignWatcher& watcher)
      : contestants_(contestants), plan_(plan), watcher_(watcher) {
    for (const Contestant& contestant : contestants)
      records_.emplace_back(contestant.name, contestant.op);
    narrowings_.resize(contestants.size());
    retired_.resize(contestants.size());
  }

  std::vector<KernelRecord> run() {
    try {
      if (plan_.regressions != nullptr) try_all(std::vector(plan_.regressions->recipes()));
      try_all(plan_.given);
      if (plan_.draws) draw();
    } catch (const std::exception& error) {
      watcher_.broke(error.what());
    }
    return std::move(records_);
  }

 private:
  bool is_over() { return over_ || watcher_.stops() || watch_.seconds() > plan_.seconds; }

  void try_all(const std::vector<Recipe>& recipes) {
    for (const Recipe& recipe : recipes)
      for (std::size_t i = 0; i < contestants_.size() && !is_over(); ++i) try_case(i, recipe, true);
  }

  // Every operator's recipe of each number: shards differ in numbers.
  void draw() {
    std::int64_t cases = 0;
    for (std::int64_t number = plan_.shard;; number += plan_.shards)
      for (const Operator op : kOperators)
        for (std::size_t i = 0; i < contestants_.size(); ++i) {
          if (std::ranges::count(retired_, true) == std::ssize(retired_)) return;
          if (contestants_[i].op != op || retired_[i]) continue;
          if (cases++ >= plan_.cases || is_over()) return;
          try_case(
              i,
              draw_recipe(op, plan_.seed, static_cast<std::uint64_t>(number), narrowings_[i].get()),
              gets_laws(number));
        }
  }

  std::vector<CheckResult> results_of(std::size_t kernel, const Recipe& recipe, bool of_laws) {
    watcher_.starts(contestants_[kernel], recipe, cases_);
    const Contestant& contestant = contestants_[kernel];
    return of_laws ? contestant.laws(recipe) : contestant.trial(recipe);
  }

  void try_case(std::size_t kernel, const Recipe& recipe, bool with_laws) {
    const std::vector<CheckResult> results = results_of(kernel, recipe, false);
    if (results.empty() || watcher_.stops()) return;
    retired_[kernel] = std::ranges::any_of(results, [](const CheckResult& result) {
      return result.status == Status::crashed &&
             result.detail.find(kNotCalled) != result.detail.npos;
    });
    if (retired_[kernel]) return;
    ++cases_;
    KernelRecord& record = records_[kernel];
    record.coverage.count(recipe, was_judged(results));
    if (!was_judged(results)) narrow(kernel, recipe);
    record.blind += shown_by(recipe).empty() && was_judged(results) ? 1 : 0;
    judge(kernel, recipe, results, false);
    // A wrong answer breaks laws too: nothing more is learnt of it.
    const bool is_right = std::ranges::none_of(
        results, [](const CheckResult& result) { return is_bad(result.status); });
    if (with_laws && is_right && was_judged(results) && contestants_[kernel].laws != nullptr &&
        !is_over()) {
      const std::vector<CheckResult> of_laws = results_of(kernel, recipe, true);
      if (!watcher_.stops()) judge(kernel, recipe, of_laws, true);
    }
  }

  void judge(std::size_t kernel, const Recipe& recipe, const std::vector<CheckResult>& results,
             bool of_laws) {
    KernelRecord& record = records_[kernel];
    bool stray = false;
    for (const CheckResult& result : results) {
      record.elements += result.elements;
      if (!is_bad(result.status)) {
        note_budget(record, result);
        continue;
      }
      if (result.status == Status::improbable && !repeats(kernel, recipe, result, of_laws))
        stray = true;
      else
        keep(kernel, recipe, result, of_laws);
    }
    record.improbable += stray ? 1 : 0;
  }

  // From the first refusal on.
  void narrow(std::size_t kernel, const Recipe& recipe) {
    if (narrowings_[kernel] != nullptr || contestants_[kernel].supports == nullptr) return;
    narrowings_[kernel] = std::make_unique<Narrowing>(recipe, contestants_[kernel].supports);
  }

  static void note_budget(KernelRecord& record, const CheckResult& result) {
    if (result.budget_used <= record.budget_used) return;
    record.budget_used = result.budget_used;
    record.budget_used_by = result.repro;
  }

  // The check again; of crashes those that end alike.
  static const CheckResult* find(const std::vector<CheckResult>& results, const CheckResult& like) {
    const auto same = [&](const CheckResult& result) {
      if (result.name != like.name) return false;
      if (like.status == Status::crashed)
        return result.status == like.status && result.detail == like.detail;
      return result.status == like.status ||
             (like.status == Status::improbable && result.status == Status::fail);
    };
    const auto found = std::ranges::find_if(results, same);
    return found == results.end() ? nullptr : &*found;
  }

  bool repeats(std::size_t kernel, const Recipe& recipe, const CheckResult& result, bool of_laws) {
    return find(results_of(kernel, on_another_seed(recipe), of_laws), result) != nullptr;
  }

  // A new failure is shrunk. A check that fails on the smallest recipe of another is one with it.
  void keep(std::size_t kernel, const Recipe& recipe, const CheckResult& result, bool of_laws) {
    KernelRecord& record = records_[kernel];
    for (Failure& failure : record.failures) {
      const bool known =
          failure.result.name == result.name && failure.result.status == result.status;
      if (known) ++failure.cases;
      if (known || std::ranges::find(failure.also, result.name) != failure.also.end()) return;
    }
    watcher_.found(result);
    Failure failure{.original = result, .result = result};
    std::vector<std::pair<Recipe, std::vector<CheckResult>>> failing;
    failure.shrunk = shrink(
        recipe,
        [&](const Recipe& smaller) {
          if (watcher_.stops()) return false;
          std::vector<CheckResult> results = results_of(kernel, smaller, of_laws);
          if (watcher_.stops() || find(results, result) == nullptr) return false;
          failing.emplace_back(smaller, std::move(results));
          return true;
        },
        plan_.shrinking);
    failure.shrunk.minimal &= !watcher_.stops();
    const auto smallest = std::ranges::find(failing, failure.shrunk.recipe,
                                            [](const auto& entry) { return entry.first; });
    if (smallest != failing.end()) {
      failure.result = *find(smallest->second, result);
      for (const CheckResult& other : smallest->second)
        if (is_bad(other.status) && other.name != result.name) failure.also.push_back(other.name);
    }
    if (!of_laws && contestants_[kernel].explain != nullptr)
      failure.explanation = contestants_[kernel].explain(std::array{recipe, failure.shrunk.recipe});
    if (plan_.regressions != nullptr)
      plan_.regressions->add(
          failure.shrunk.recipe,
          fmt::format("{} {}", name_of(failure.result.status), failure.result.name));
    record.failures.push_back(std::move(failure));
    watcher_.shrunk(record.failures.back());
    over_ |= plan_.stop_on_first;
  }

  std::span<const Contestant> contestants_;
  const CampaignPlan& plan_;
  CampaignWatcher& watcher_;
  Stopwatch watch_;
  std::vector<KernelRecord> records_;
  std::vector<std::unique_ptr<Narrowing>> narrowings_;
  std::vector<bool> retired_;  // its library has hung
  std::int64_t cases_ = 0;
  bool over_ = false;
};

}  // namespace

std::vector<KernelRecord> run_campaign(std::span<const Contestant> contestants,
                                       const CampaignPlan& plan, CampaignWatcher& watcher) {
  return Campaign(contestants, plan, watcher).run();
}

}  // namespace mlacheck
