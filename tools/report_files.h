#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fixtures/hdf5/replace_file.h"
#include "tools/report.h"

namespace mlacheck {

// What is replaced by another run's: not a file of anybody else.
inline constexpr FileKind kJunitReport = {
    "an earlier JUnit report of mlacheck",
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"mlacheck "};
inline constexpr FileKind kJsonReport = {"an earlier JSON report of mlacheck",
                                         "{\n  \"mlacheck\": "};
inline constexpr FileKind kHtmlReport = {
    "an earlier page of mlacheck",
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>mlacheck "};

// Whether a report can be written there, before the run that it is of. Leaves nothing. Throws as
// below.
void require_writable(const std::filesystem::path& path, const FileKind& kind);

// A kernel's own words, a path: what is no UTF-8 becomes U+FFFD, and control characters spaces, so
// that they reach neither the terminal nor the files.
std::string printable(const std::string& text);

// The document after "mlacheck": the program's version. A file that is such a report is replaced
// whole, any other refused (ReplaceFile). Throws Hdf5Error naming the file when it cannot be
// written.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document);

// The text as content of an element or of a quoted attribute.
std::string escaped_for_xml(const std::string& text);

// "3 PASS, 1 FAIL"
std::string summary_of(const std::vector<CheckResult>& results,
                       const std::vector<std::string>& errors);

// Texts are printable(). All throw as write_json does.
void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors);
void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors);
void write_file(const std::filesystem::path& path, const FileKind& kind, const std::string& text);

}  // namespace mlacheck
