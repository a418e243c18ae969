#include "reference/verdict/heat_map.h"

#include <algorithm>
#include <utility>

namespace mlacheck {

void HeatMap::add(std::int64_t row, std::int64_t column, double ratio) {
  cover(row, column);
  float& largest = cell(row >> down_.shift, column >> across_.shift);
  largest = std::max(largest, static_cast<float>(ratio));
}

void HeatMap::merge(const HeatMap& other) {
  if (other.cells_.empty()) return;
  cover(other.rows() - 1, other.columns() - 1);
  HeatMap same = other;  // in cells of this one's size
  while (same.down_.shift < down_.shift) same.double_cells(true);
  while (same.across_.shift < across_.shift) same.double_cells(false);
  std::ranges::transform(cells_, same.cells_, cells_.begin(),
                         [](float a, float b) { return std::max(a, b); });
}

void HeatMap::cover(std::int64_t row, std::int64_t column) {
  if (cells_.empty()) cells_.assign(kMostCells * kMostCells, kNone);
  while (!down_.holds(row)) double_cells(true);
  while (!across_.holds(column)) double_cells(false);
  down_.extent = std::max(down_.extent, row + 1);
  across_.extent = std::max(across_.extent, column + 1);
}

void HeatMap::double_cells(bool down) {
  ++(down ? down_ : across_).shift;
  const std::vector<float> cells =
      std::exchange(cells_, std::vector<float>(kMostCells * kMostCells, kNone));
  for (std::int64_t i = 0; i < kMostCells; ++i)
    for (std::int64_t j = 0; j < kMostCells; ++j) {
      float& largest = down ? cell(i / 2, j) : cell(i, j / 2);
      largest = std::max(largest, cells[static_cast<std::size_t>(i * kMostCells + j)]);
    }
}

}  // namespace mlacheck
