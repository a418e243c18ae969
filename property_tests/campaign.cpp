#include "property_tests/campaign.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cuda/plugin/kernel_process_pool.h"
#include "fixtures/counter_random.h"
#include "property_tests/campaign_time.h"
#include "property_tests/case_results.h"
#include "property_tests/stages/patience.h"
#include "tools/kernel_checks.h"
#include "tools/stopwatch.h"

namespace mlacheck {
namespace {

// Of a number alone, so that every shard has its share, and the shards together what one has.
bool gets_laws(std::int64_t number) {
  return mix64(static_cast<std::uint64_t>(number)) % std::uint64_t{kLawsEvery} == 0;
}

class Campaign {
 public:
  Campaign(std::span<const Contestant> contestants, const CampaignPlan& plan,
           CampaignWatcher& watcher)
      : contestants_(contestants),
        plan_(plan),
        watcher_(watcher),
        time_(plan.seconds, plan.shrinking, contestants.size()) {
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
    for (std::size_t i = 0; i < contestants_.size(); ++i) records_[i].retired = is_retired(i);
    if (time_.is_over() || time_.left_out() > 0) watcher_.ran_out(time_.left_out());
    return std::move(records_);
  }

 private:
  // What a case gave.
  struct Tried {
    std::vector<CheckResult> results = {};
    bool hung = false;  // without results then: it is kept already
    double seconds = 0;
  };

  bool is_over() { return over_ || watcher_.stops() || time_.is_over(); }

  std::int64_t hangs_of(std::size_t kernel) const {
    return contestants_[kernel].hangs == nullptr ? 0 : contestants_[kernel].hangs();
  }
  bool is_retired(std::size_t kernel) const { return hangs_of(kernel) >= kMostHangs; }
  bool all_are_retired() const {
    for (std::size_t i = 0; i < contestants_.size(); ++i)
      if (!is_retired(i)) return false;
    return true;
  }

  void try_all(const std::vector<Recipe>& recipes) {
    for (const Recipe& recipe : recipes)
      for (std::size_t i = 0; i < contestants_.size(); ++i) {
        if (over_ || (watcher_.stops() && !time_.is_up())) return;
        if (!is_for(contestants_[i].op, recipe)) continue;
        if (is_over() || !try_case(i, recipe, true)) ++records_[i].untried;
      }
  }

  // Every operator's recipe of each number: shards differ in numbers.
  void draw() {
    std::int64_t cases = 0;
    for (std::int64_t number = plan_.shard;; number += plan_.shards)
      for (const Operator op : kOperators)
        for (std::size_t i = 0; i < contestants_.size(); ++i) {
          if (all_are_retired()) return;
          if (contestants_[i].op != op || is_retired(i)) continue;
          if (cases++ >= plan_.cases || is_over()) return;
          const Recipe recipe =
              draw_recipe(op, plan_.seed, static_cast<std::uint64_t>(number), narrowings_[i].get());
          if (is_over()) return;  // of what narrowing has met
          try_case(i, recipe, gets_laws(number));
        }
  }

  // How to put a case again: of laws the one that `result` is of.
  Trial again(std::size_t kernel, const CheckResult& result, bool of_laws) const {
    const Contestant& contestant = contestants_[kernel];
    if (!of_laws) return contestant.trial;
    return [&contestant, name = result.name](const Recipe& recipe) {
      return contestant.laws(recipe, name);
    };
  }
  std::vector<CheckResult> all_laws(std::size_t kernel, const Recipe& recipe) {
    return put(kernel, recipe, [&](const Recipe& r) { return contestants_[kernel].laws(r, ""); })
        .results;
  }

  // Nothing of a library that is not called again: that says nothing of a recipe.
  Tried put(std::size_t kernel, const Recipe& recipe, const Trial& trial) {
    if (is_retired(kernel)) return {};
    watcher_.starts(contestants_[kernel], recipe, cases_);
    const Stopwatch watch;
    std::vector<CheckResult> results = trial(recipe);
    note_if_given_up(kernel, recipe, watch);
    const auto hang = std::ranges::find_if(results, &CheckResult::hung);
    if (hang == results.end()) return {std::move(results), false, watch.seconds()};
    if (!watcher_.stops()) keep_hang(kernel, recipe, *hang, results);
    return {.hung = true};
  }

  // It may be slow as well.
  void note_if_given_up(std::size_t kernel, const Recipe& recipe, const Stopwatch& watch) {
    std::string& given_up = records_[kernel].given_up;
    if (!given_up.empty() || !time_.is_up() || !watcher_.stops()) return;
    const auto& repro = contestants_[kernel].repro;
    given_up = fmt::format("after {:.1f} s: {}", watch.seconds(),
                           repro == nullptr ? minimal(recipe) : repro(recipe));
  }

  void keep_hang(std::size_t kernel, const Recipe& recipe, const CheckResult& hang,
                 const std::vector<CheckResult>& results) {
    Failure failure{.original = hang, .recipe = recipe, .result = hang};
    failure.hung = true;
    failure.shrunk.recipe = recipe;
    for (const CheckResult& other : results)
      if (is_wrong(other.status) && !other.hung) failure.also.push_back(other.name);
    watcher_.hung(failure);
    add(kernel, std::move(failure));
  }

  bool keeps_time(bool fits) {
    if (fits)
      time_.note_tried();
    else
      time_.note_left_out();
    return fits;
  }

  // Whether there was time for all of it.
  bool try_case(std::size_t kernel, const Recipe& recipe, bool with_laws) {
    if (!keeps_time(time_.fits(kernel, recipe))) return false;
    const Tried tried = put(kernel, recipe, contestants_[kernel].trial);
    const std::vector<CheckResult>& results = tried.results;
    if ((results.empty() && !tried.hung) || watcher_.stops()) return true;
    ++cases_;
    KernelRecord& record = records_[kernel];
    record.coverage.count(recipe, tried.hung || was_judged(results));
    if (tried.hung) return true;
    time_.note(kernel, recipe, tried.seconds);
    if (!was_judged(results)) narrow(kernel, recipe);
    record.blind += shown_by(recipe).empty() && was_judged(results) ? 1 : 0;
    judge(kernel, recipe, tried, false);
    // A wrong answer breaks laws too: nothing more is learnt of it.
    if (!with_laws || is_any_wrong(results) || !was_judged(results) ||
        contestants_[kernel].laws == nullptr)
      return true;
    if (is_over() || !keeps_time(time_.laws_fit(tried.seconds))) return false;
    const Tried of_laws = {all_laws(kernel, recipe), false, tried.seconds};
    if (!watcher_.stops()) judge(kernel, recipe, of_laws, true);
    return true;
  }

  void judge(std::size_t kernel, const Recipe& recipe, const Tried& tried, bool of_laws) {
    KernelRecord& record = records_[kernel];
    bool stray = false;
    for (const CheckResult& result : tried.results) {
      record.elements += result.elements;
      if (!is_wrong(result.status)) {
        record.note_right(result);
        continue;
      }
      if (result.status == Status::improbable && !repeats(kernel, recipe, result, of_laws))
        stray = true;
      else
        keep(kernel, recipe, result, of_laws, tried.seconds);
    }
    record.improbable += stray ? 1 : 0;
  }

  // From the first refusal on.
  void narrow(std::size_t kernel, const Recipe& recipe) {
    if (narrowings_[kernel] != nullptr || contestants_[kernel].supports == nullptr) return;
    narrowings_[kernel] = std::make_unique<Narrowing>(recipe, [this, kernel](const Recipe& asked) {
      // To be done at once: nothing is drawn by it.
      if (is_over() || is_retired(kernel)) return true;
      watcher_.starts(contestants_[kernel], asked, cases_);
      const Stopwatch watch;
      const CheckResult answer = contestants_[kernel].supports(asked);
      note_if_given_up(kernel, asked, watch);
      if (is_wrong(answer.status) && !watcher_.stops()) {
        if (answer.hung)
          keep_hang(kernel, asked, answer, {});
        else
          keep(kernel, asked, answer, false, watch.seconds());
      }
      return answer.status == Status::pass;
    });
  }

  bool repeats(std::size_t kernel, const Recipe& recipe, const CheckResult& result, bool of_laws) {
    Recipe other = recipe;
    std::visit([](auto& r) { ++r.seed; }, other);
    return find_again(put(kernel, other, again(kernel, result, of_laws)).results, result) !=
           nullptr;
  }

  // A new failure is shrunk. A check that fails on the smallest recipe of another is one with it.
  void keep(std::size_t kernel, const Recipe& recipe, const CheckResult& result, bool of_laws,
            double seconds) {
    KernelRecord& record = records_[kernel];
    for (Failure& failure : record.failures) {
      if (failure.hung) continue;  // what went wrong beside it was not looked into
      const bool known =
          failure.result.name == result.name && failure.result.status == result.status;
      if (known) ++failure.cases;
      if (known || std::ranges::find(failure.also, result.name) != failure.also.end()) return;
    }
    watcher_.found(result);
    Failure failure{.original = result, .recipe = recipe, .result = result};
    const Trial trial = again(kernel, result, of_laws);
    std::vector<CheckResult> smallest;  // of the last that failed
    failure.shrunk = shrink(
        recipe,
        [&](const Recipe& smaller) {
          if (watcher_.stops()) return false;
          std::vector<CheckResult> results = put(kernel, smaller, trial).results;
          if (watcher_.stops() || find_again(results, result) == nullptr) return false;
          smallest = std::move(results);
          return true;
        },
        time_.for_shrinking(seconds));
    failure.shrunk.minimal &= !watcher_.stops() && !is_retired(kernel);
    if (!smallest.empty()) {
      failure.result = *find_again(smallest, result);
      if (of_laws && !is_over()) smallest = all_laws(kernel, failure.shrunk.recipe);
      for (const CheckResult& other : smallest)
        if (is_wrong(other.status) && other.name != result.name) failure.also.push_back(other.name);
    }
    if (!of_laws) explain(kernel, recipe, failure);
    watcher_.shrunk(failure);
    add(kernel, std::move(failure));
  }

  void explain(std::size_t kernel, const Recipe& recipe, Failure& failure) {
    const Contestant& contestant = contestants_[kernel];
    const double seconds = std::min(time_.for_shrinking(0).seconds, kSecondsToExplain);
    if (contestant.explain == nullptr || is_retired(kernel) || seconds == 0) return;
    const std::int64_t hangs = hangs_of(kernel);
    const Stopwatch watch;
    failure.explanation = contestant.explain(std::array{recipe, failure.shrunk.recipe}, seconds);
    note_if_given_up(kernel, failure.shrunk.recipe, watch);
    if (hangs_of(kernel) == hangs || watcher_.stops()) return;
    keep_hang(
        kernel, failure.shrunk.recipe,
        {contestant.name, Status::crashed, "hung when it was called again", failure.result.repro},
        {});
  }

  void add(std::size_t kernel, Failure failure) {
    const Failure& kept = records_[kernel].failures.emplace_back(std::move(failure));
    over_ |= plan_.stop_on_first;
    if (plan_.regressions == nullptr) return;
    try {
      plan_.regressions->add(kept.shrunk.recipe,
                             fmt::format("{} {}", name_of(kept.result.status), kept.result.name));
    } catch (const std::exception& error) {
      watcher_.not_appended(kept, error.what());
    }
  }

  std::span<const Contestant> contestants_;
  const CampaignPlan& plan_;
  CampaignWatcher& watcher_;
  CampaignTime time_;
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
