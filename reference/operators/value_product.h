#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/arithmetic/ordered_sum.h"

namespace mlacheck::detail {

// product[c] = sum_j weights[j] * value_j[c], in the order of an ordered sum over j: lane j mod 16,
// ascending j, then the tree. The values are kept as panels [column / 16][j mod 16][j / 16][16], so
// that one lane of 16 columns is one stretch of memory.
class ValuePanels {
 public:
  explicit ValuePanels(std::int64_t columns)
      : columns_(columns), blocks_((columns + kColumns - 1) / kColumns) {}

  // Forgets all values and makes room for `rows`.
  void resize(std::int64_t rows) {
    rows_ = rows;
    depth_ = (rows + kSumLanes - 1) / kSumLanes;
    panels_.resize(static_cast<std::size_t>(blocks_ * kSumLanes * depth_ * kColumns));
  }

  void set_value(std::int64_t j, const float* value) {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      float* columns = panels_.data() + offset(block, j);
      const std::int64_t first = block * kColumns;
      for (std::int64_t c = 0; c < kColumns; ++c)
        columns[c] = first + c < columns_ ? value[first + c] : 0.0f;
    }
  }

  // kHeads products at once: weights[head][0 .. rows), products[head][0 .. columns).
  template <std::size_t kHeads>
  void multiply(const std::array<const float*, kHeads>& weights,
                const std::array<float*, kHeads>& products) const {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      std::array<std::array<Columns, kSumLanes>, kHeads> lanes;
      for (std::int64_t lane = 0; lane < kSumLanes; ++lane) {
        std::array<Columns, kHeads> sums;
        sums.fill(Columns::Zero());
        const float* panel = panels_.data() + offset(block, lane);
        for (std::int64_t j = lane; j < rows_; j += kSumLanes, panel += kColumns) {
          const Columns values = Eigen::Map<const Columns>(panel);
          for (std::size_t h = 0; h < kHeads; ++h) sums[h] += weights[h][j] * values;
        }
        for (std::size_t h = 0; h < kHeads; ++h) lanes[h][static_cast<std::size_t>(lane)] = sums[h];
      }
      for (std::size_t h = 0; h < kHeads; ++h) {
        const Columns product = tree(lanes[h]);
        for (std::int64_t c = block * kColumns; c < std::min(columns_, (block + 1) * kColumns); ++c)
          products[h][c] = product[c - block * kColumns];
      }
    }
  }

 private:
  static constexpr std::int64_t kColumns = 16;
  using Columns = Eigen::Array<float, kColumns, 1>;

  // sum_of_lanes for 16 columns at once.
  static Columns tree(std::array<Columns, kSumLanes>& lanes) {
    for (std::size_t width = kSumLanes / 2; width > 0; width /= 2)
      for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
  }

  std::int64_t offset(std::int64_t block, std::int64_t j) const {
    return ((block * kSumLanes + j % kSumLanes) * depth_ + j / kSumLanes) * kColumns;
  }

  std::int64_t columns_;
  std::int64_t blocks_;
  std::int64_t rows_ = 0;
  std::int64_t depth_ = 0;  // rows of a lane
  std::vector<float> panels_;
};

}  // namespace mlacheck::detail
