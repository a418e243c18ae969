#pragma once

#include <cstdint>
#include <vector>

#include "reference/verdict/status.h"

namespace mlacheck {

// Where on a plane of an output elements are wrong or near it: each cell has the worst of its
// elements. At most kMostCells cells a side; a cell covers 1, 2, 4 ... rows, or columns, as the
// plane grows.
class HeatMap {
 public:
  static constexpr std::int64_t kMostCells = 64;

  struct Cell {
    Status status = Status::pass;
    float ratio = -1;  // share of the proven budget that is used; -1: there is no element
    bool operator==(const Cell&) const = default;
    bool operator<(const Cell& other) const {
      return status != other.status ? status < other.status : ratio < other.ratio;
    }
  };

  // Row and column from 0 on.
  void add(std::int64_t row, std::int64_t column, Cell element);
  // The same as if the other's elements had been added.
  void merge(const HeatMap& other);

  std::int64_t rows() const { return down_.extent; }  // up to the last one that was added
  std::int64_t columns() const { return across_.extent; }
  std::int64_t rows_of_cell() const { return std::int64_t{1} << down_.shift; }
  std::int64_t columns_of_cell() const { return std::int64_t{1} << across_.shift; }
  std::int64_t cells_down() const { return down_.cells(); }
  std::int64_t cells_across() const { return across_.cells(); }
  const Cell& cell(std::int64_t down, std::int64_t across) const {
    return cells_[static_cast<std::size_t>(down * kMostCells + across)];
  }

 private:
  struct Axis {
    std::int64_t extent = 0;
    int shift = 0;
    bool holds(std::int64_t i) const { return i >> shift < kMostCells; }
    std::int64_t cells() const { return (extent + (std::int64_t{1} << shift) - 1) >> shift; }
  };

  void add_to_cell(std::int64_t down, std::int64_t across, const Cell& element);
  void cover(std::int64_t row, std::int64_t column);
  void double_cells(Axis& axis);

  Axis down_, across_;
  std::vector<Cell> cells_;  // kMostCells^2, or none as long as there are no elements
};

}  // namespace mlacheck
