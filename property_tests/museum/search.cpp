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
  explicit Watcher(const std::int64_t& cases) : cases_(cases) {}

  void found(const CheckResult&) override {
    if (cases_of_first_ == 0) note();
  }
  void note() {
    cases_of_first_ = cases_;
    seconds_ = watch_.seconds();
  }
  std::int64_t cases() const { return cases_of_first_; }
  double seconds() const { return seconds_; }

 private:
  const std::int64_t& cases_;
  std::int64_t cases_of_first_ = 0;
  Stopwatch watch_;
  double seconds_ = 0;
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
                    const std::function<void(std::int64_t)>& progress) {
  const auto op = static_cast<Operator>(museum.kernel(name).op);
  const auto drawn = [&](std::int64_t number) {
    return draw_recipe(op, plan.seed, static_cast<std::uint64_t>(number));
  };
  std::int64_t cases = 0;
  const auto trial = [&](const Recipe& recipe) {
    if (recipe == drawn(cases)) progress(++cases);  // else a second seed, or shrinking
    return museum.check(name, recipe);
  };
  const std::array<Contestant, 1> contestant = {{{name, op, trial, nullptr}}};
  CampaignPlan until_caught = plan;
  until_caught.stop_on_first = true;
  Watcher watcher(cases);
  KernelRecord record = run_campaign(contestant, until_caught, watcher).front();
  if (record.failures.empty()) watcher.note();

  SearchResult result;
  result.cases = watcher.cases();
  result.seconds = watcher.seconds();
  if (!record.failures.empty()) result.failure = std::move(record.failures.front());
  for (std::int64_t number = 0; number < result.cases; ++number) {
    result.flat_of_case = museum.flat(name, drawn(number));
    merge(result.flat_of_tried, result.flat_of_case);
  }
  return result;
}

}  // namespace mlacheck::museum
