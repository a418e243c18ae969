#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/report.h"

namespace mlacheck {

// A page that needs nothing else: all checks, what is wrong first; of those that were judged by a
// budget how many elements used how much of it, and where they stand. Of a PASS only with
// `details`, as on the terminal. Texts are printable(). Throws as write_json does.
void write_html(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors,
                bool details);

}  // namespace mlacheck
