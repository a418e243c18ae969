#pragma once

#include <vector>

#include "tools/report.h"

namespace mlacheck {

// Of what the checks of a case said.
bool was_judged(const std::vector<CheckResult>& results);
bool is_any_wrong(const std::vector<CheckResult>& results);
// The check again; of crashes those that end alike. Null: it did not go wrong so.
const CheckResult* find_again(const std::vector<CheckResult>& results, const CheckResult& like);

}  // namespace mlacheck
