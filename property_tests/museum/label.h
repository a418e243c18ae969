#pragma once

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck::museum {

// What stands beside an exhibit.
struct Label {
  const char* name;
  const char* what;    // is wrong, and when: one line
  const char* origin;  // public: issues, pull requests, commits; empty for a kernel without fault
};

// Of a fault that every kernel of its kind can have.
inline constexpr const char* kNoReport = "no public report";

// fp32 in 16 lanes and a tree (ordered_sum.h), and in one accumulator: products are rounded first.
inline constexpr mlacheck_accumulation kLanes = {1, MLACHECK_SUM_LANES16, 0, 25, 1};
inline constexpr mlacheck_accumulation kInOrder = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 1};

}  // namespace mlacheck::museum
