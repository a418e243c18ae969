#pragma once

#include "tools/report.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace mlacheck {

// Of an option of seconds: more than none, and an end.
CLI::Validator positive_and_finite();

// --junit, --json, --html and --verbose.
void add_report_options(CLI::App& command, ReportOptions& options);

}  // namespace mlacheck
