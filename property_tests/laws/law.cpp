#include "property_tests/laws/law.h"

#include <array>

#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"

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
  return std::move(trial).results();
}

std::vector<CheckResult> check_laws(const Recipe& recipe, const KernelLibrary& library,
                                    const mlacheck_kernel& kernel) {
  std::vector<CheckResult> results;
  for (const Law& law : laws())
    for (CheckResult& result : check_law(law, recipe, library, kernel))
      results.push_back(std::move(result));
  return results;
}

}  // namespace mlacheck
