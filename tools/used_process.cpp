#include "tools/used_process.h"

#include <algorithm>

namespace mlacheck {

namespace {

bool is_wrong(const CheckResult& result) {
  return result.status == Status::fail || result.status == Status::crashed ||
         result.status == Status::improbable;
}

}  // namespace

bool goes_wrong(const std::vector<CheckResult>& results) {
  return std::ranges::any_of(results, is_wrong);
}

std::vector<CheckResult> told_apart(std::vector<CheckResult> used, std::vector<CheckResult> fresh) {
  for (CheckResult& result : used) {
    if (!is_wrong(result)) continue;
    const auto twin = std::ranges::find(fresh, result.name, &CheckResult::name);
    if (twin != fresh.end() && is_wrong(*twin)) continue;
    result.detail += "; only after other calls in its process, not in a fresh one";
    if (twin == fresh.end())
      fresh.push_back(std::move(result));
    else
      *twin = std::move(result);
  }
  return fresh;
}

}  // namespace mlacheck
