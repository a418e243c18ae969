#pragma once

#include <vector>

#include "tools/report.h"

namespace mlacheck {

// A kernel's calls share a process with those before them, and so what those have damaged. What goes
// wrong in a process that others have used is put to a fresh one before anything is said of it.

// Whether any of it calls for that.
bool goes_wrong(const std::vector<CheckResult>& results);

// What is said then: the results in the fresh process, and what went wrong in the used one alone,
// which says so.
std::vector<CheckResult> told_apart(std::vector<CheckResult> used, std::vector<CheckResult> fresh);

}  // namespace mlacheck
