#include "property_tests/case_results.h"

#include <algorithm>

namespace mlacheck {

bool was_judged(const std::vector<CheckResult>& results) {
  return std::ranges::any_of(results, [](const CheckResult& result) {
    return result.status != Status::refused && result.status != Status::skipped;
  });
}

bool is_any_wrong(const std::vector<CheckResult>& results) {
  return std::ranges::any_of(results,
                             [](const CheckResult& result) { return is_wrong(result.status); });
}

const CheckResult* find_again(const std::vector<CheckResult>& results, const CheckResult& like) {
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

}  // namespace mlacheck
