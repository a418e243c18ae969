#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mlacheck::stages {

// Elements [first, last) of every query, a row of `width`, are 0: left out of q . k. False where
// there are none.
inline bool leave_out(std::vector<float>& q, std::int64_t width, std::int64_t first,
                      std::int64_t last) {
  if (first >= last || first < 0) return false;
  for (auto row = q.begin(); row != q.end(); row += width) std::fill(row + first, row + last, 0.0f);
  return true;
}

}  // namespace mlacheck::stages
