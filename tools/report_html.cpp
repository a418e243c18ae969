#include "tools/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/heat_map_svg.h"
#include "tools/report_files.h"

namespace mlacheck {
namespace {

constexpr const char* kStyle = R"(
body { font: 14px/1.5 sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
section { border-left: 4px solid #bbb; padding: 0 1em; margin: 1em 0 }
section.PASS { border-color: #4c956c } section.FAIL, section.CRASHED { border-color: #a4161a }
section.IMPROBABLE, section.MISTRUSTED { border-color: #f4a259 }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .6em; margin: .5em 0 }
figure { display: inline-block; margin: .5em 1.5em .5em 0; vertical-align: top }
figcaption { color: #666; font-size: 12px; max-width: 30em }
.plane { background: #fff; outline: 1px solid #bbb } .axis { stroke: #666; fill: none }
.legend span { display: inline-block; width: 1em; height: 1em; margin: 0 .3em 0 .8em; vertical-align: -.15em }
)";

std::string pictures_of(const CheckResult& result) {
  std::string pictures;
  for (const auto& [stage, picture] : result.pictures) {
    if (picture.elements.empty()) continue;
    pictures += fmt::format("<h4>{}</h4>{}", escaped_for_xml(stage), svg_of_budget(picture));
    for (std::size_t i = 0; i < picture.planes.size(); ++i)
      pictures += svg_of_plane(picture.planes[i], picture.axes[i], picture.axes[i + 1]);
  }
  return pictures;
}

std::string section_of(const CheckResult& result, bool details) {
  const bool whole = details || result.status != Status::pass;
  std::string body;
  if (whole && !result.detail.empty())
    body += fmt::format("<pre>{}</pre>", escaped_for_xml(result.detail));
  if (result.status != Status::pass && !result.repro.empty())
    body += fmt::format("<pre>{}</pre>", escaped_for_xml(result.repro));
  if (whole) body += pictures_of(result);
  return fmt::format(
      "<section class=\"{0}\"><b>{0}</b> {1} <small>{2:.2f} s</small>{3}</section>\n",
      name_of(result.status), escaped_for_xml(result.name), result.seconds, body);
}

}  // namespace

void write_html(const std::filesystem::path& path, const std::string& title,
                const std::vector<CheckResult>& results, const std::vector<std::string>& errors,
                bool details) {
  std::vector<const CheckResult*> worst_first;
  for (const CheckResult& result : results) worst_first.push_back(&result);
  std::ranges::stable_sort(worst_first, std::ranges::greater{},
                           [](const CheckResult* result) { return result->status; });
  std::string sections;
  for (const std::string& error : errors)
    sections += fmt::format("<section class=\"FAIL\"><b>error</b><pre>{}</pre></section>\n",
                            escaped_for_xml(error));
  for (const CheckResult* result : worst_first) sections += section_of(*result, details);
  write_file(
      path, kHtmlReport,
      fmt::format("{5}{0}</title><style>{1}</style></head>\n"
                  "<body><h1>mlacheck {0}</h1><p>{2}</p>\n"
                  "<p class=\"legend\">the worst of a cell, by the share of the "
                  "budget that it used: {3}</p>\n"
                  "{4}</body></html>\n",
                  escaped_for_xml(title), kStyle, escaped_for_xml(summary_of(results, errors)),
                  legend_of_planes(), sections, kHtmlReport.begins));
}

}  // namespace mlacheck
