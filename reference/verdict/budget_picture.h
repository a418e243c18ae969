#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/verdict/heat_map.h"

namespace mlacheck {

// What an output's coordinates are; null where it has fewer.
using Axes = std::array<const char*, 3>;

// What a finding looks like: how many elements used how much of their budget, and where they stand.
// Elements that any value may have are left out.
struct BudgetPicture {
  // Bin i: elements that used [i, i + 1) / kBinsPerUnit of it; the last one has the rest.
  static constexpr std::int64_t kBinsPerUnit = 16;
  static constexpr std::size_t kBins = 2 * kBinsPerUnit + 1;

  Axes axes = {};
  std::vector<std::int64_t> elements;  // kBins, or none where nothing was judged by a budget
  std::vector<HeatMap> planes;         // axes 0 and 1 and, where there are three, 1 and 2
};

}  // namespace mlacheck
