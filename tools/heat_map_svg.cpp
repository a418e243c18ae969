#include "tools/heat_map_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace mlacheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of a status, by the share of the budget that is used: up to it.
struct Colour {
  Status status;
  double most;
  const char* value;
  const char* meaning;
};
constexpr std::array<Colour, 10> kColours = {{
    {Status::pass, 0.25, "#e7eef6", "to 25 %"},
    {Status::pass, 0.5, "#bcd3ea", "50 %"},
    {Status::pass, 0.75, "#85b0d8", "75 %"},
    {Status::pass, kInfinity, "#3f7fb8", "100 %"},
    {Status::mistrusted, kInfinity, "#9b8bb4", "no bound"},
    {Status::improbable, kInfinity, "#f2d544", "improbable"},
    {Status::fail, 2, "#f4a259", "2 x"},
    {Status::fail, 10, "#e0533d", "10 x"},
    {Status::fail, 1000, "#a4161a", "1,000 x"},
    {Status::fail, kInfinity, "#3d0307", "more, NaN"},
}};

// Its number.
std::size_t colour_of(const HeatMap::Cell& cell) {
  const auto* const at = std::ranges::find_if(kColours, [&](const Colour& colour) {
    return colour.status == cell.status && static_cast<double>(cell.ratio) <= colour.most;
  });
  return static_cast<std::size_t>(std::min(at, kColours.end() - 1) - kColours.begin());
}

bool is_empty(const HeatMap::Cell& cell) { return cell == HeatMap::Cell(); }

std::string span_of(const std::string& name, std::int64_t extent, std::int64_t of_cell) {
  const std::string span =
      extent > 1 ? fmt::format("{} 0 … {}", name, extent - 1) : fmt::format("{} 0", name);
  return of_cell > 1 ? fmt::format("{}, {} a cell", span, of_cell) : span;
}

}  // namespace

std::string svg_of_budget(const BudgetPicture& picture) {
  constexpr double kBar = 8, kHeight = 96;
  const std::int64_t most = std::ranges::max(picture.elements);
  const double decades = std::log10(static_cast<double>(std::max<std::int64_t>(most, 1))) + 1;
  std::string bars;
  constexpr auto kUnit = static_cast<double>(BudgetPicture::kBinsPerUnit);
  for (std::size_t i = 0; i < picture.elements.size(); ++i) {
    const std::int64_t count = picture.elements[i];
    if (count == 0) continue;
    const double height = kHeight * (std::log10(static_cast<double>(count)) + 1) / decades;
    const double least = static_cast<double>(i) / kUnit;
    const Status status = least < 1 ? Status::pass : Status::fail;
    bars += fmt::format(
        R"(<rect x="{:.0f}" y="{:.1f}" width="7" height="{:.1f}" fill="{}"><title>{} elements from {:.0f} % on</title></rect>)",
        kBar * static_cast<double>(i), kHeight - height, height,
        kColours[colour_of({status, static_cast<float>(least + 1 / kUnit)})].value, count,
        100 * least);
  }
  const double width = kBar * static_cast<double>(picture.elements.size());
  return fmt::format(
      R"(<figure><svg width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}">{2}<path class="axis" d="M0 {1:.0f}h{0:.0f}M{3:.0f} 0v{1:.0f}"/></svg><figcaption>elements (log) by share of the budget used, 0 … 200 % and more; the line: 100 %</figcaption></figure>)",
      width, kHeight, bars, kBar * kUnit);
}

std::string svg_of_plane(const HeatMap& plane, const std::string& down, const std::string& across) {
  const std::int64_t rows = plane.cells_down(), columns = plane.cells_across();
  // Neighbours of one colour are one piece of that colour's path.
  std::map<std::size_t, std::string> paths;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0, next = 0; j < columns; j = next) {
      next = j + 1;
      if (is_empty(plane.cell(i, j))) continue;
      const std::size_t colour = colour_of(plane.cell(i, j));
      while (next < columns && !is_empty(plane.cell(i, next)) &&
             colour_of(plane.cell(i, next)) == colour)
        ++next;
      paths[colour] += fmt::format("M{} {}h{}v1h-{}z", j, i, next - j, next - j);
    }
  std::string cells;
  for (const auto& [colour, path] : paths)
    cells += fmt::format(R"(<path fill="{}" d="{}"/>)", kColours[colour].value, path);
  const std::int64_t size = std::max<std::int64_t>(4, 256 / std::max(rows, columns));
  return fmt::format(
      R"(<figure><svg class="plane" width="{}" height="{}" viewBox="0 0 {} {}">{}</svg><figcaption>down: {}<br/>across: {}</figcaption></figure>)",
      columns * std::min<std::int64_t>(size, 16), rows * std::min<std::int64_t>(size, 16), columns,
      rows, cells, span_of(down, plane.rows(), plane.rows_of_cell()),
      span_of(across, plane.columns(), plane.columns_of_cell()));
}

std::string legend_of_planes() {
  std::string legend;
  for (const Colour& colour : kColours)
    legend +=
        fmt::format(R"(<span style="background:{}"></span>{} )", colour.value, colour.meaning);
  return legend;
}

}  // namespace mlacheck
