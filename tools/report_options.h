#pragma once

#include "tools/report.h"

namespace CLI {
class App;
}

namespace mlacheck {

// --junit, --json and --verbose.
void add_report_options(CLI::App& command, ReportOptions& options);

}  // namespace mlacheck
