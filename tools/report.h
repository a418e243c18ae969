#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/verdict/verdict.h"
#include "tools/stopwatch.h"

namespace mlacheck {

struct Picture {
  std::string stage;
  BudgetPicture budget;
};

// One check of a run.
struct CheckResult {
  std::string name;  // "glm5_prefill.h5: output"
  Status status = Status::pass;
  std::string detail;  // worst element, bound, budget used, stage; or the reason: lines
  std::string repro;   // command that repeats this check alone
  double seconds = 0;
  std::int64_t elements = 0;           // that a bound has judged
  double budget_used = 0;              // of the proven bound, by the worst of them; > 1 fails
  bool hung = false;                   // CRASHED, as no answer came in time
  std::vector<Picture> pictures = {};  // of the outputs that are as the status says
};

struct ReportOptions {
  std::optional<std::filesystem::path> junit;  // JUnit XML
  std::optional<std::filesystem::path> json;   // JSON
  std::optional<std::filesystem::path> html;   // a page with pictures of where the errors are
  bool details = false;                        // of a PASS too: worst element, budget used
};

// To stdout, if it takes it: where nobody reads it the reports are written all the same, and main()
// says so.
template <class... T>
void print_out(fmt::format_string<T...> format, T&&... arguments) {
  std::fputs(fmt::format(format, std::forward<T>(arguments)...).c_str(), stdout);
}
// "mlacheck: <message>" to stderr, if it takes it.
void print_error(std::string_view message);

// Shows checks as they come and says how it ended: a moving line on a terminal, plain lines in a
// log. Colours only on a terminal and never with NO_COLOR; GitHub annotations under GITHUB_ACTIONS.
class Report {
 public:
  // Throws Hdf5Error where a file cannot be written, std::invalid_argument where two are the same.
  Report(std::string title, ReportOptions options);

  // What is being worked on; `total` of 0 where the number of checks is not known.
  void progress(std::size_t done, std::size_t total, const std::string& what);
  // Nothing is added once the run is told to end (interruption.h), which finish() makes an error;
  void add(CheckResult result);
  // but what was known before.
  void add_known(CheckResult result);
  // Lines that are no verdict.
  void note(const std::string& text);
  bool on_terminal() const { return terminal_; }
  // Something that is no verdict: a file that cannot be read, say. Goes to stderr; the run ends
  // with exit code 3 if nothing failed.
  void error(const std::string& message);

  // Writes the files, each that cannot be written being an error(), and prints the summary. Returns
  // the exit code.
  int finish();

 private:
  std::string title_;
  ReportOptions options_;
  bool terminal_;
  bool colours_;
  bool line_open_ = false;
  Stopwatch watch_;
  std::vector<CheckResult> results_;
  std::vector<std::string> errors_;

  void clear_line();
  void annotate(const CheckResult& result) const;
};

}  // namespace mlacheck
