#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace mlacheck {

// The one order in which the reference adds n numbers:
//
//   lane[l] = ((0 + x[l]) + x[l + 16]) + x[l + 32] + ...     l = 0 .. 15, ascending index
//   sum     = tree over the lanes: l with l + 8, then + 4, + 2, + 1
//
// Products are rounded before they are added. Lanes start at +0, so no lane is ever -0 and padding
// with zeros changes no bit. Error: |computed - exact| <= gamma(ceil(n / 16) + 4 [+ 1 for
// products]) * sum |x|.
inline constexpr int kSumLanes = 16;

using SumLanes = Eigen::Array<float, kSumLanes, 1>;

// The tree that ends every ordered sum.
inline float sum_of_lanes(const SumLanes& lanes) {
  const Eigen::Array<float, 8, 1> eight = lanes.head<8>() + lanes.tail<8>();
  const Eigen::Array<float, 4, 1> four = eight.head<4>() + eight.tail<4>();
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// Sum of x[0 .. n).
inline float ordered_sum(const float* x, std::int64_t n) {
  SumLanes lanes = SumLanes::Zero();
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) lanes += Eigen::Map<const SumLanes>(x + i);
  for (int l = 0; i + l < n; ++l) lanes[l] += x[i + l];
  return sum_of_lanes(lanes);
}

// Sum of a[i] * b[i], i in [0, n).
inline float ordered_dot(const float* a, const float* b, std::int64_t n) {
  SumLanes lanes = SumLanes::Zero();
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
    lanes += Eigen::Map<const SumLanes>(a + i) * Eigen::Map<const SumLanes>(b + i);
  for (int l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
  return sum_of_lanes(lanes);
}

}  // namespace mlacheck
