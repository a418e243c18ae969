#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/report.h"

namespace mlacheck {

// Whether a report can be written there, before the run that it is of. Leaves nothing. Throws as
// below.
void require_writable(const std::filesystem::path& path);

// Texts are UTF-8 without control characters but newlines, as Report keeps them. A file is replaced
// whole (ReplaceFile); a pipe or a device is written to as it is. Both throw Hdf5Error or
// std::system_error naming the file when it cannot be written.
void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors);
void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors);

}  // namespace mlacheck
