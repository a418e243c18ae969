#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/report.h"

namespace mlacheck {

// Texts are UTF-8 without control characters but newlines, as Report keeps them. Both throw
// std::system_error naming the file when it cannot be written.
void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors);
void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors);

}  // namespace mlacheck
