#include "tools/report_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace mlacheck {

namespace {

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw std::system_error(errno, std::generic_category(), path.string());
}

std::string xml(const std::string& text) {
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
      case '\n':
        result += ' ';
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace

void write_junit(const std::filesystem::path& path, const std::string& title,
                 const std::vector<CheckResult>& results, const std::vector<std::string>& errors) {
  std::size_t failures = 0;
  std::size_t skipped = 0;
  std::string cases;
  for (const CheckResult& result : results) {
    const std::string detail = xml(fmt::format("{} {}", result.detail, result.repro));
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
        xml(result.name), result.seconds, body);
  }
  for (const std::string& error : errors)
    cases += fmt::format(
        "  <testcase classname=\"mlacheck\" name=\"error\"><error message=\"{}\"/></testcase>\n",
        xml(error));
  write_file(
      path,
      fmt::format(
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n"
          "{}</testsuite>\n",
          xml(title), results.size() + errors.size(), failures, errors.size(), skipped, cases));
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
