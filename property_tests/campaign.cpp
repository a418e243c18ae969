#include "property_tests/campaign.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "fixtures/counter_random.h"
#include "tools/stopwatch.h"

namespace mlacheck {
namespace {

bool is_bad(Status status) { return status >= Status::improbable; }

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
  }

  std::vector<KernelRecord> run() {
    try {
      if (plan_.regressions != nullptr) try_all(std::vector(plan_.regressions->recipes()));
      try_all(plan_.given);
      if (plan_.draws) draw();
    } catch (const std::exception& error) {
      watcher_.broke(error.what());
    }
    for (std::size_t i = 0; i < contestants_.size(); ++i) records_[i].retired = has_hung(i);
    return std::move(records_);
  }

 private:
  bool is_over() { return over_ || watcher_.stops() || watch_.seconds() > plan_.seconds; }

  bool has_hung(std::size_t kernel) const {
    return contestants_[kernel].hung != nullptr && contestants_[kernel].hung();
  }
  bool all_have_hung() const {
    for (std::size_t i = 0; i < contestants_.size(); ++i)
      if (!has_hung(i)) return false;
    return true;
  }

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
          if (all_have_hung()) return;
          if (contestants_[i].op != op || has_hung(i)) continue;
          if (cases++ >= plan_.cases || is_over()) return;
          try_case(
              i,
              draw_recipe(op, plan_.seed, static_cast<std::uint64_t>(number), narrowings_[i].get()),
              gets_laws(number));
        }
  }

  // Empty for a case that hangs, which is kept here, and after it: a library that is not called again
  // says nothing of a recipe.
  std::vector<CheckResult> results_of(std::size_t kernel, const Recipe& recipe, bool of_laws) {
    if (has_hung(kernel)) return {};
    const Contestant& contestant = contestants_[kernel];
    watcher_.starts(contestant, recipe, cases_);
    std::vector<CheckResult> results = of_laws ? contestant.laws(recipe) : contestant.trial(recipe);
    if (!has_hung(kernel)) return results;
    if (!watcher_.stops()) keep_hang(kernel, recipe, results);
    return {};
  }

  // The first crash is the hang: the calls after it were not made.
  void keep_hang(std::size_t kernel, const Recipe& recipe,
                 const std::vector<CheckResult>& results) {
    const auto hang = std::ranges::find(results, Status::crashed, &CheckResult::status);
    Failure failure;
    failure.hung = true;
    failure.original =
        hang != results.end()
            ? *hang
            : CheckResult{contestants_[kernel].name, Status::crashed, "hung", minimal(recipe)};
    failure.result = failure.original;
    failure.shrunk.recipe = recipe;
    for (const CheckResult& other : results)
      if (is_bad(other.status) && other.status != Status::crashed)
        failure.also.push_back(other.name);
    watcher_.hung(failure);
    add(kernel, std::move(failure));
  }

  void try_case(std::size_t kernel, const Recipe& recipe, bool with_laws) {
    const std::vector<CheckResult> results = results_of(kernel, recipe, false);
    if (results.empty() || watcher_.stops()) return;
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
    narrowings_[kernel] = std::make_unique<Narrowing>(recipe, [this, kernel](const Recipe& asked) {
      if (is_over() || has_hung(kernel)) return true;  // to be done at once: nothing is drawn by it
      const bool supported = contestants_[kernel].supports(asked);
      if (has_hung(kernel) && !watcher_.stops()) keep_hang(kernel, asked, {});
      return supported;
    });
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
        shrinking());
    failure.shrunk.minimal &= !watcher_.stops() && !has_hung(kernel);
    const auto smallest = std::ranges::find(failing, failure.shrunk.recipe,
                                            [](const auto& entry) { return entry.first; });
    if (smallest != failing.end()) {
      failure.result = *find(smallest->second, result);
      for (const CheckResult& other : smallest->second)
        if (is_bad(other.status) && other.name != result.name) failure.also.push_back(other.name);
    }
    if (!of_laws && contestants_[kernel].explain != nullptr && !has_hung(kernel)) {
      failure.explanation = contestants_[kernel].explain(std::array{recipe, failure.shrunk.recipe});
      if (has_hung(kernel)) keep_hang(kernel, failure.shrunk.recipe, {});
    }
    watcher_.shrunk(failure);
    add(kernel, std::move(failure));
  }

  // Failures that are found late share what one may take past the campaign's end.
  ShrinkBudget shrinking() const {
    ShrinkBudget budget = plan_.shrinking;
    const double left = plan_.seconds + budget.seconds - watch_.seconds();
    budget.seconds = std::clamp(left, 0.0, budget.seconds);
    return budget;
  }

  void add(std::size_t kernel, Failure failure) {
    if (plan_.regressions != nullptr)
      plan_.regressions->add(
          failure.shrunk.recipe,
          fmt::format("{} {}", name_of(failure.result.status), failure.result.name));
    records_[kernel].failures.push_back(std::move(failure));
    over_ |= plan_.stop_on_first;
  }

  std::span<const Contestant> contestants_;
  const CampaignPlan& plan_;
  CampaignWatcher& watcher_;
  Stopwatch watch_;
  std::vector<KernelRecord> records_;
  std::vector<std::unique_ptr<Narrowing>> narrowings_;
  std::int64_t cases_ = 0;
  bool over_ = false;
};

}  // namespace

std::vector<KernelRecord> run_campaign(std::span<const Contestant> contestants,
                                       const CampaignPlan& plan, CampaignWatcher& watcher) {
  return Campaign(contestants, plan, watcher).run();
}

}  // namespace mlacheck
