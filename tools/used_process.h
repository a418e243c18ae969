#pragma once

#include <vector>

#include "tools/report.h"

namespace mlacheck {

// A kernel's calls share a process with those before them, and so what those have damaged. What
// goes wrong in a process that others have used is put to a fresh one before anything is said of
// it.

// Behind the detail of what goes wrong in a used process, and does not in a fresh one.
inline constexpr const char* kOnlyInAUsedProcess =
    "; only after other calls in its process, not in a fresh one";

// Whether any of it calls for that.
bool goes_wrong(const std::vector<CheckResult>& results);

// What is said then: the results in the fresh process, and what went wrong in the used one alone,
// which says so.
std::vector<CheckResult> told_apart(std::vector<CheckResult> used, std::vector<CheckResult> fresh);

}  // namespace mlacheck
