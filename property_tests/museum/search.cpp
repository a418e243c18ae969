#include "property_tests/museum/search.h"

#include <algorithm>
#include <array>

#include "property_tests/recipe_generator.h"
#include "tools/kernel_checks.h"
#include "tools/stopwatch.h"

namespace mlacheck::museum {

namespace {

// Notes when the first failure was found.
class Watcher : public CampaignWatcher {
 public:
  explicit Watcher(const std::function<bool(std::int64_t)>& progress) : progress_(progress) {}

  void starts(const Contestant&, const Recipe&, std::int64_t cases) override {
    goes_on_ = progress_(cases);
  }
  void found(const CheckResult&) override {
    if (!seconds_) seconds_ = watch_.seconds();
  }
  void hung(const Failure& failure) override { found(failure.original); }
  void broke(const std::string& error) override { error_ = error; }
  bool stops() override { return !goes_on_; }

  double seconds() const { return seconds_.value_or(watch_.seconds()); }
  const std::string& error() const { return error_; }

 private:
  const std::function<bool(std::int64_t)>& progress_;
  Stopwatch watch_;
  std::optional<double> seconds_;
  std::string error_;
  bool goes_on_ = true;
};

}  // namespace

std::vector<std::string> Museum::names() const {
  std::vector<std::string> names;
  for (const mlacheck_kernel* kernel : library_.kernels()) names.emplace_back(kernel->name);
  return names;
}

std::vector<CheckResult> Museum::check(const std::string& name, const Recipe& recipe) {
  std::vector<CheckResult> results = check_kernel(recipe, library_, kernel(name));
  const bool broke = std::ranges::any_of(
      results, [](const CheckResult& result) { return result.status == Status::crashed; });
  if (broke) library_ = load_();
  return results;
}

FlatVerdicts Museum::flat(const std::string& name, const Recipe& recipe) const {
  return flat_verdicts(recipe, library_, kernel(name));
}

std::string check_of(const CheckResult& result) {
  const std::size_t space = result.name.find(' ');
  return space == std::string::npos ? "call" : result.name.substr(space + 1);
}

SearchResult search(Museum& museum, const std::string& name, const CampaignPlan& plan,
                    const std::function<bool(std::int64_t)>& progress) {
  const auto op = static_cast<Operator>(museum.kernel(name).op);
  const auto trial = [&](const Recipe& recipe) { return museum.check(name, recipe); };
  const std::array<Contestant, 1> contestant = {{{name, op, trial, nullptr}}};
  CampaignPlan until_caught = plan;
  until_caught.stop_on_first = true;
  Watcher watcher(progress);
  KernelRecord record = run_campaign(contestant, until_caught, watcher).front();

  SearchResult result;
  result.cases = record.coverage.judged() + record.coverage.refused();
  result.seconds = watcher.seconds();
  result.error = watcher.error();
  if (!record.failures.empty()) result.failure = std::move(record.failures.front());
  const auto add_flat = [&](const Recipe& recipe) {
    const FlatVerdicts verdicts = museum.flat(name, recipe);
    for (std::size_t rule = 0; rule < verdicts.size(); ++rule)
      result.flat[rule].add(verdicts[rule]);
  };
  if (result.failure) {
    add_flat(result.failure->recipe);
    return result;
  }
  for (std::int64_t number = 0; number < std::min(result.cases, kFlatCases); ++number)
    add_flat(draw_recipe(op, plan.seed, static_cast<std::uint64_t>(number)));
  return result;
}

}  // namespace mlacheck::museum
