#include "tools/report_options.h"

#include <CLI/CLI.hpp>

namespace mlacheck {

void add_report_options(CLI::App& command, ReportOptions& options) {
  command.add_option("--junit", options.junit, "Write the results as JUnit XML to this file");
  command.add_option("--json", options.json, "Write the results as JSON to this file");
  command.add_flag("-v,--verbose", options.details,
                   "Worst element and budget used of each PASS too");
}

}  // namespace mlacheck
