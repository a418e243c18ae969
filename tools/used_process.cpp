#include "tools/used_process.h"

#include <algorithm>

namespace mlacheck {

bool goes_wrong(const std::vector<CheckResult>& results) {
  return std::ranges::any_of(results,
                             [](const CheckResult& result) { return is_wrong(result.status); });
}

std::vector<CheckResult> told_apart(std::vector<CheckResult> used, std::vector<CheckResult> fresh) {
  for (CheckResult& result : used) {
    if (!is_wrong(result.status)) continue;
    const auto twin = std::ranges::find(fresh, result.name, &CheckResult::name);
    if (twin != fresh.end() && is_wrong(twin->status)) continue;
    const bool tried = twin == fresh.end() || twin->status != Status::skipped;
    result.detail += tried ? kOnlyInAUsedProcess : "; after other calls in its process";
    if (twin == fresh.end())
      fresh.push_back(std::move(result));
    else
      *twin = std::move(result);
  }
  return fresh;
}

}  // namespace mlacheck
