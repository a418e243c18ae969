#include "tools/report_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace mlacheck {

CLI::Validator positive_and_finite() {
  return {[](std::string& text) {
            double value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            const bool is_number = error == std::errc() && end == text.data() + text.size();
            return is_number && std::isfinite(value) && value > 0
                       ? std::string()
                       : fmt::format("expected a finite number above 0, got '{}'", text);
          },
          "POSITIVE"};
}

void add_report_options(CLI::App& command, ReportOptions& options) {
  command.add_option("--junit", options.junit, "Write the results as JUnit XML to this file");
  command.add_option("--json", options.json, "Write the results as JSON to this file");
  command.add_option("--html", options.html,
                     "Write the results as a page with pictures of where errors are to this file");
  command.add_flag("-v,--verbose", options.details,
                   "Worst element and budget used of each PASS too");
}

}  // namespace mlacheck
