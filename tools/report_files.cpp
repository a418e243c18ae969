#include "tools/report_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "fixtures/hdf5/replace_file.h"

namespace mlacheck {

std::string escaped_for_xml(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string printable(const std::string& text) {
  using nlohmann::json;
  const std::string dumped = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  std::string result = json::parse(dumped).get<std::string>();
  for (char& c : result)
    if ((static_cast<unsigned char>(c) < ' ' && c != '\n') || c == '\x7f') c = ' ';
  return result;
}

void write_file(const std::filesystem::path& path, const FileKind& kind, const std::string& text) {
  ReplaceFile(path, kind).commit(std::as_bytes(std::span(text)));
}

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document) {
  nlohmann::ordered_json report = {{"mlacheck", MLACHECK_VERSION}};
  report.update(document);
  write_file(path, kJsonReport, report.dump(2) + "\n");
}

void require_writable(const std::filesystem::path& path, const FileKind& kind) {
  const ReplaceFile probe(path, kind);
}

std::string summary_of(const std::vector<CheckResult>& results,
                       const std::vector<std::string>& errors) {
  std::map<Status, std::size_t> count;
  for (const CheckResult& result : results) ++count[result.status];
  std::string summary;
  for (const auto& [status, number] : count)
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", number, name_of(status));
  if (!errors.empty())
    summary += fmt::format("{}{} errors", summary.empty() ? "" : ", ", errors.size());
  return summary.empty() ? "no checks" : summary;
}

void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors) {
  std::size_t failures = 0;
  std::size_t skipped = 0;
  std::string cases;
  for (const CheckResult& result : results) {
    std::string detail = escaped_for_xml(fmt::format("{} {}", result.detail, result.repro));
    std::ranges::replace(detail, '\n', ' ');
    std::string body;
    if (result.status == Status::skipped || result.status == Status::refused) {
      ++skipped;
      body = fmt::format("<skipped message=\"{}: {}\"/>", name_of(result.status), detail);
    } else if (result.status != Status::pass) {
      ++failures;
      body = fmt::format("<failure type=\"{}\" message=\"{}\"/>", name_of(result.status), detail);
    }
    cases += fmt::format(
        "  <testcase classname=\"mlacheck\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n",
        escaped_for_xml(result.name), result.seconds, body);
  }
  for (const std::string& error : errors)
    cases += fmt::format(
        "  <testcase classname=\"mlacheck\" name=\"error\"><error message=\"{}\"/></testcase>\n",
        escaped_for_xml(error));
  write_file(
      path, kJunitReport,
      fmt::format(
          "{}{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}</testsuite>\n",
          kJunitReport.begins, escaped_for_xml(title), results.size() + errors.size(), failures,
          errors.size(), skipped, cases));
}

void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const CheckResult& result : results)
    checks.push_back({{"name", result.name},
                      {"status", name_of(result.status)},
                      {"detail", result.detail},
                      {"repro", result.repro},
                      {"seconds", result.seconds}});
  write_json(path, {{"title", title}, {"checks", checks}, {"errors", errors}});
}

}  // namespace mlacheck
