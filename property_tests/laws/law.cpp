#include "property_tests/laws/law.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"
#include "tools/used_process.h"

namespace mlacheck {

std::span<const Law> laws() {
  using namespace law;
  static const std::array kLaws = {
      absent_values(),   appended_absent(), past_length(),  index_order(),  solo_rows(),
      split_and_merge(), value_shift(),     cache_power(),  latent_order(), head_order(),
      weight_power(),    appended_keys(),   equal_scores(), score_power(),  appended_columns(),
      shifted_range(),   moved_pages(),     unread_bytes(), row_order(),    repeated_launch(),
      reused_scratch()};
  return kLaws;
}

std::vector<CheckResult> check_law(const Law& law, const Recipe& recipe,
                                   const KernelLibrary& library, const mlacheck_kernel& kernel) {
  if (!law.applies(recipe, kernel)) return {};
  LawTrial trial(law, recipe, library, kernel);
  law.run(recipe, trial);
  const bool after_others = trial.after_others();
  std::vector<CheckResult> results = std::move(trial).results();
  if (!after_others || !goes_wrong(results)) return results;
  LawTrial fresh(law, recipe, library.afresh(), kernel);
  law.run(recipe, fresh);
  return told_apart(std::move(results), std::move(fresh).results());
}

std::vector<CheckResult> check_laws(const Recipe& recipe, const KernelLibrary& library,
                                    const mlacheck_kernel& kernel, std::string_view only) {
  std::vector<CheckResult> results;
  for (const Law& law : laws()) {
    if (!only.empty() && !only.ends_with(fmt::format(" law {}", law.name))) continue;
    for (CheckResult& result : check_law(law, recipe, library, kernel))
      results.push_back(std::move(result));
    if (!results.empty() && results.back().hung) break;
  }
  return results;
}

}  // namespace mlacheck
