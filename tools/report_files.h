#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/report.h"

namespace mlacheck {

// Whether a report that begins so ('{' for JSON, '<' for XML) can be written there, before the run
// that it is of. Leaves nothing. Throws as below.
void require_writable(const std::filesystem::path& path, char begins);

// A kernel's own words, a path: what is no UTF-8 becomes U+FFFD, and control characters spaces, so
// that they reach neither the terminal nor the files.
std::string printable(const std::string& text);

// A file is replaced whole, if it began as the text does; a pipe or a device is refused
// (ReplaceFile). Throws Hdf5Error naming the file when it cannot be written.
void write_file(const std::filesystem::path& path, const std::string& text);

// The text as content of an element or of a quoted attribute.
std::string escaped_for_xml(const std::string& text);

// "3 PASS, 1 FAIL"
std::string summary_of(const std::vector<CheckResult>& results,
                       const std::vector<std::string>& errors);

// Texts are printable(). Both throw as write_file does.
void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors);
void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors);

}  // namespace mlacheck
