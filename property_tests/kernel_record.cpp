#include "property_tests/kernel_record.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cuda/plugin/kernel_process_pool.h"

namespace mlacheck {
namespace {

constexpr double kImprobableElement = 2e-9;
constexpr double kChanceOfMore = 1e-6;

CheckResult to_result(const Failure& failure) {
  CheckResult result = failure.result;
  const Shrunk& shrunk = failure.shrunk;
  if (!failure.explanation.empty()) result.detail += '\n' + failure.explanation;
  if (!failure.also.empty())
    result.detail += fmt::format("\nwith it: {}", fmt::join(failure.also, ", "));
  result.detail +=
      fmt::format("\nseen in {} cases, first by {}", failure.cases, failure.original.repro);
  if (failure.hung)
    result.detail += "\nnot shrunk: it hung";
  else if (shrunk.trials == 0)
    result.detail += "\nnot shrunk: the time was over";
  else if (!shrunk.reproduced)
    result.detail += "\nnot shrunk: it did not fail again on the same recipe";
  else if (!shrunk.minimal)
    result.detail += fmt::format("\nshrinking ended by its budget after {} tries", shrunk.trials);
  return result;
}

// What it was not put to, line by line; empty where that is nothing.
std::string gaps(const KernelRecord& record) {
  std::string text;
  if (record.retired)
    text += fmt::format("\nretired after {} cases: its library hung {} times",
                        record.coverage.judged() + record.coverage.refused(), kMostHangs);
  if (!record.given_up.empty())
    text += fmt::format("\nit may hang: given up when the time was over, {}", record.given_up);
  if (record.untried > 0)
    text += fmt::format("\nno time was left for {} given recipes or their laws", record.untried);
  return text;
}

CheckResult summary(const KernelRecord& record, bool drew_cases) {
  const Coverage& coverage = record.coverage;
  CheckResult result;
  result.name = record.name;
  if (coverage.judged() == 0) {
    result.status = coverage.refused() > 0 ? Status::refused : Status::skipped;
    result.detail = coverage.refused() > 0 ? fmt::format("all of {} cases", coverage.refused())
                                           : "no case was for it";
    const std::string lacks = gaps(record);
    if (!lacks.empty()) result.detail = lacks.substr(1);
    if (!record.given_up.empty() || record.untried > 0) result.status = Status::mistrusted;
    return result;
  }
  result.detail = fmt::format("{} cases ({} refused, {} could show nothing)", coverage.judged(),
                              coverage.refused(), record.blind);
  if (record.elements > 0)
    result.detail += fmt::format("; {} elements, budget used {:.3g} % at most", record.elements,
                                 100 * record.budget_used);
  if (!record.budget_used_by.empty())
    result.detail += fmt::format("\nby {}", record.budget_used_by);
  const std::int64_t allowed = improbable_allowance(record.elements);
  if (record.improbable > 0)
    result.detail +=
        fmt::format("\n{} cases IMPROBABLE on one seed, {} allowed", record.improbable, allowed);
  if (record.improbable > allowed) result.status = Status::improbable;
  const std::vector<ErrorClass> never = coverage.never_visible();
  if (drew_cases && !never.empty()) {
    result.status = std::max(result.status, Status::mistrusted);
    result.detail += "\nno case would have shown these errors; more cases may:";
    for (const ErrorClass error : never)
      result.detail += fmt::format("\n  {}: {}", name_of(error), in_words(error));
  }
  if (const std::string lacks = gaps(record); !lacks.empty()) {
    result.status = std::max(result.status, Status::mistrusted);
    result.detail += lacks;
  }
  for (const auto& [check, trusted] : record.trusted) {
    if (trusted) continue;
    result.status = std::max(result.status, Status::mistrusted);
    result.detail += fmt::format("\nnever more than MISTRUSTED: {}", check);
  }
  if (record.blind == coverage.judged()) {
    result.status = std::max(result.status, Status::mistrusted);
    result.detail += "\nno case could show any class of error";
  }
  return result;
}

}  // namespace

void KernelRecord::note_right(const CheckResult& result) {
  if (result.status == Status::pass || result.status == Status::mistrusted)
    trusted[result.name] |= result.status == Status::pass;
  if (result.budget_used <= budget_used) return;
  budget_used = result.budget_used;
  budget_used_by = result.repro;
}

std::int64_t improbable_allowance(std::int64_t elements) {
  // Poisson: the sum of its tail from the likeliest on.
  const double mean = static_cast<double>(elements) * kImprobableElement;
  if (mean > 500) return static_cast<std::int64_t>(std::ceil(mean + 5 * std::sqrt(mean)));
  double term = std::exp(-mean), sum = term;
  std::int64_t count = 0;
  while (1 - sum > kChanceOfMore) {
    term *= mean / static_cast<double>(++count);
    sum += term;
  }
  return count;
}

std::vector<CheckResult> verdicts(const KernelRecord& record, bool drew_cases) {
  std::vector<CheckResult> results;
  for (const Failure& failure : record.failures) results.push_back(to_result(failure));
  if (results.empty())
    results.push_back(summary(record, drew_cases));
  else
    results.back().detail += gaps(record);
  return results;
}

}  // namespace mlacheck
