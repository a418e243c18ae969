#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlacheck {

// Where on a plane of an output its budget is used: in each cell the largest ratio of its elements.
// At most kMostCells cells a side; a cell covers 1, 2, 4 ... rows, or columns, as the plane grows.
class HeatMap {
 public:
  static constexpr std::int64_t kMostCells = 64;
  static constexpr float kNone = -1;  // of a cell without elements

  // Both from 0 on.
  void add(std::int64_t row, std::int64_t column, double ratio);
  // The same as if the other's elements had been added.
  void merge(const HeatMap& other);

  std::int64_t rows() const {
    return down_.extent;
  }  // of the plane: the last added and those before
  std::int64_t columns() const { return across_.extent; }
  std::int64_t rows_of_cell() const { return std::int64_t{1} << down_.shift; }
  std::int64_t columns_of_cell() const { return std::int64_t{1} << across_.shift; }
  std::int64_t cells_down() const { return down_.cells(); }
  std::int64_t cells_across() const { return across_.cells(); }
  float ratio(std::int64_t down, std::int64_t across) const {
    return cells_[static_cast<std::size_t>(down * kMostCells + across)];
  }

 private:
  struct Axis {
    std::int64_t extent = 0;
    int shift = 0;
    bool holds(std::int64_t i) const { return i >> shift < kMostCells; }
    std::int64_t cells() const { return (extent + (std::int64_t{1} << shift) - 1) >> shift; }
  };

  float& cell(std::int64_t down, std::int64_t across) {
    return cells_[static_cast<std::size_t>(down * kMostCells + across)];
  }
  void cover(std::int64_t row, std::int64_t column);
  void double_cells(bool down);

  Axis down_, across_;
  std::vector<float> cells_;  // kMostCells^2, or none as long as there are no elements
};

// What a finding looks like: how many elements used how much of their budget, and where they stand.
struct BudgetPicture {
  // Bin i: elements that used [i, i + 1) / kBinsPerUnit of it; the last one takes the rest.
  static constexpr std::int64_t kBinsPerUnit = 16;
  static constexpr std::size_t kBins = 2 * kBinsPerUnit;

  std::string stage;
  std::vector<std::int64_t> elements;  // kBins, or none where nothing was judged by a budget
  std::vector<HeatMap> planes;  // of coordinates 0 and 1 and, where there are three, of 1 and 2
};

}  // namespace mlacheck
