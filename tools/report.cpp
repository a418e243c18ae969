#include "tools/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "tools/interruption.h"
#include "tools/report_files.h"
#include "tools/report_html.h"

namespace mlacheck {

namespace {

bool is_failure(Status status) { return status >= Status::fail; }

bool set_and_not_empty(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

const char* colour_of(Status status) {
  switch (status) {
    case Status::pass:
      return "\x1b[32m";
    case Status::fail:
    case Status::crashed:
      return "\x1b[1;31m";
    default:
      return "\x1b[33m";
  }
}

// GitHub wants these escaped in the text of a workflow command.
std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '%')
      result += "%25";
    else if (c == '\r')
      result += "%0D";
    else if (c == '\n')
      result += "%0A";
    else
      result += c;
  }
  return result;
}

// Under the result that it belongs to.
std::string indented(const std::string& text) {
  std::string result = "\n           ";
  for (char c : text) {
    result += c;
    if (c == '\n') result += "           ";
  }
  return result;
}

}  // namespace

void print_error(std::string_view message) {
  std::fputs(fmt::format("mlacheck: {}\n", message).c_str(), stderr);
}

Report::Report(std::string title, ReportOptions options)
    : title_(std::move(title)),
      options_(std::move(options)),
      terminal_(isatty(STDOUT_FILENO) == 1 && !set_and_not_empty("CI")),
      colours_(terminal_ && !set_and_not_empty("NO_COLOR")) {
  std::set<std::filesystem::path> files;
  for (const auto& [file, kind] : {std::pair(options_.junit, kJunitReport),
                                   {options_.json, kJsonReport},
                                   {options_.html, kHtmlReport}}) {
    if (!file) continue;
    require_writable(*file, kind);
    // However it is spelled; a link is followed, as it is when the file is written.
    if (!files.insert(std::filesystem::weakly_canonical(std::filesystem::absolute(*file))).second)
      throw std::invalid_argument(
          fmt::format("--junit, --json, --html: two of them to {}", file->string()));
  }
}

void Report::clear_line() {
  if (line_open_) print_out("\r\x1b[K");
  line_open_ = false;
}

void Report::progress(std::size_t done, std::size_t total, const std::string& what) {
  if (!terminal_) return;
  clear_line();
  if (total > 0)
    print_out("[{}/{}] {}", done, total, what);
  else
    print_out("[{}] {}", done, what);
  std::fflush(stdout);
  line_open_ = true;
}

void Report::add(CheckResult result) {
  if (!Interruption::requested()) add_known(std::move(result));
}

void Report::add_known(CheckResult result) {
  result.name = printable(result.name);
  result.detail = printable(result.detail);
  result.repro = printable(result.repro);
  clear_line();
  print_out("{}{:<10}{} {}", colours_ ? colour_of(result.status) : "", name_of(result.status),
            colours_ ? "\x1b[0m" : "", result.name);
  if (result.seconds >= 0.05) print_out(" ({:.1f} s)", result.seconds);
  const bool passed = result.status == Status::pass;
  if (!result.detail.empty() && (options_.details || !passed))
    print_out("{}", indented(result.detail));
  if (!result.repro.empty() && !passed) print_out("{}", indented("repeat: " + result.repro));
  print_out("\n");
  std::fflush(stdout);
  annotate(result);
  if (!options_.html) result.pictures.clear();
  results_.push_back(std::move(result));
}

void Report::note(const std::string& text) {
  clear_line();
  print_out("{}\n", printable(text));
  std::fflush(stdout);
}

void Report::error(const std::string& message) {
  clear_line();
  errors_.push_back(printable(message));
  print_error(errors_.back());
}

void Report::annotate(const CheckResult& result) const {
  // GitHub shows ten annotations a step.
  constexpr std::size_t kMost = 10;
  if (!set_and_not_empty("GITHUB_ACTIONS") || !is_failure(result.status)) return;
  std::size_t failures = 0;
  for (const CheckResult& earlier : results_) failures += is_failure(earlier.status) ? 1 : 0;
  if (failures >= kMost) return;
  print_out("::error title=mlacheck {}::{}\n", name_of(result.status),
            escaped(fmt::format("{}: {} {}", result.name, result.detail, result.repro)));
}

int Report::finish() {
  if (Interruption::requested()) error("ended by a signal before all was checked");
  // A file that cannot be written is no reason to lose the others, nor the verdict.
  const auto try_to_write = [this](std::optional<std::filesystem::path>& file, auto&& write) {
    if (!file) return;
    try {
      write();
    } catch (const std::exception& failure) {
      error(failure.what());
      file.reset();
    }
  };
  // Again where one could not be, so that those before it know of that.
  for (std::optional<std::size_t> written; written != errors_.size();) {
    written = errors_.size();
    try_to_write(options_.junit, [&] { write_junit(*options_.junit, title_, results_, errors_); });
    try_to_write(options_.json, [&] { write_json(*options_.json, title_, results_, errors_); });
    try_to_write(options_.html,
                 [&] { write_html(*options_.html, title_, results_, errors_, options_.details); });
  }
  clear_line();
  std::vector<Status> statuses;
  for (const CheckResult& result : results_) statuses.push_back(result.status);
  print_out("{}: {} in {:.1f} s\n", title_, summary_of(results_, errors_), watch_.seconds());
  const int code = exit_code(statuses);
  return errors_.empty() ? code : with_error(code);
}

}  // namespace mlacheck
