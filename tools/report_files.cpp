#include "tools/report_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "fixtures/hdf5/replace_file.h"

namespace mlacheck {

namespace {

// A pipe or a terminal, which a shell gives as a file: no file can take its place.
bool is_stream(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  return std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
}

}  // namespace

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

void write_file(const std::filesystem::path& path, const std::string& text) {
  if (!is_stream(path)) {
    ReplaceFile(path, text.substr(0, 1)).commit(std::as_bytes(std::span(text)));
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::system_error(errno, std::generic_category(), path.string());
}

void require_writable(const std::filesystem::path& path, char begins) {
  if (!is_stream(path)) const ReplaceFile probe(path, {&begins, 1});
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
      path,
      fmt::format(
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n"
          "{}</testsuite>\n",
          escaped_for_xml(title), results.size() + errors.size(), failures, errors.size(), skipped,
          cases));
}

void write_json(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors) {
  nlohmann::json checks = nlohmann::json::array();
  for (const CheckResult& result : results)
    checks.push_back({{"name", result.name},
                      {"status", name_of(result.status)},
                      {"detail", result.detail},
                      {"repro", result.repro},
                      {"seconds", result.seconds}});
  const nlohmann::json document = {
      {"title", title}, {"version", MLACHECK_VERSION}, {"checks", checks}, {"errors", errors}};
  write_file(path, document.dump(2) + "\n");
}

}  // namespace mlacheck
