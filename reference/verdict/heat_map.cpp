#include "reference/verdict/heat_map.h"

#include <algorithm>
#include <utility>

namespace mlacheck {

void HeatMap::add(std::int64_t row, std::int64_t column, Cell element) {
  cover(row, column);
  add_to_cell(row >> down_.shift, column >> across_.shift, element);
}

void HeatMap::merge(const HeatMap& other) {
  if (other.cells_.empty()) return;
  cover(other.rows() - 1, other.columns() - 1);
  HeatMap same = other;  // in cells of this one's size
  while (same.down_.shift < down_.shift) same.double_cells(same.down_);
  while (same.across_.shift < across_.shift) same.double_cells(same.across_);
  std::ranges::transform(cells_, same.cells_, cells_.begin(),
                         [](const Cell& a, const Cell& b) { return std::max(a, b); });
}

void HeatMap::add_to_cell(std::int64_t down, std::int64_t across, const Cell& element) {
  Cell& worst = cells_[static_cast<std::size_t>(down * kMostCells + across)];
  if (worst < element) worst = element;
}

void HeatMap::cover(std::int64_t row, std::int64_t column) {
  if (cells_.empty()) cells_.resize(kMostCells * kMostCells);
  while (!down_.holds(row)) double_cells(down_);
  while (!across_.holds(column)) double_cells(across_);
  down_.extent = std::max(down_.extent, row + 1);
  across_.extent = std::max(across_.extent, column + 1);
}

void HeatMap::double_cells(Axis& axis) {
  ++axis.shift;
  const int down = &axis == &down_ ? 1 : 0, across = 1 - down;
  const std::vector<Cell> finer = std::exchange(cells_, std::vector<Cell>(kMostCells * kMostCells));
  for (std::int64_t i = 0; i < kMostCells; ++i)
    for (std::int64_t j = 0; j < kMostCells; ++j)
      add_to_cell(i >> down, j >> across, finer[static_cast<std::size_t>(i * kMostCells + j)]);
}

}  // namespace mlacheck
