#pragma once

#include "tools/report.h"

namespace CLI {
class App;
}

namespace mlacheck {

// --junit and --json.
void add_report_options(CLI::App& command, ReportOptions& options);

}  // namespace mlacheck
