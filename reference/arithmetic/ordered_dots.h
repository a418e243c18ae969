#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>

#include "reference/arithmetic/ordered_sum.h"

namespace mlacheck {

// R x C ordered dots that share their loads:
//
//   out(r, c) = ordered_dot(a + r * a_stride, b + c * b_stride, n)     bit for bit
//
// Strides in elements. 1 x 2 and 1 x 4 suit both SSE2's 16 registers and wider ones.
template <int R, int C>
Eigen::Array<float, R, C> ordered_dots(const float* a, std::int64_t a_stride, const float* b,
                                       std::int64_t b_stride, std::int64_t n) {
  std::array<SumLanes, std::size_t{R} * C> lanes;
  lanes.fill(SumLanes::Zero());
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes)
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t c = 0; c < C; ++c)
        lanes[r * C + c] += Eigen::Map<const SumLanes>(a + r * a_stride + i) *
                            Eigen::Map<const SumLanes>(b + c * b_stride + i);
  Eigen::Array<float, R, C> out;
  for (std::size_t r = 0; r < R; ++r)
    for (std::size_t c = 0; c < C; ++c) {
      SumLanes& lane = lanes[r * C + c];
      for (int l = 0; i + l < n; ++l) lane[l] += a[r * a_stride + i + l] * b[c * b_stride + i + l];
      out(r, c) = sum_of_lanes(lane);
    }
  return out;
}

}  // namespace mlacheck
