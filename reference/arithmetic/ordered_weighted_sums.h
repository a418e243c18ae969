#pragma once

#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstdint>

#include "reference/arithmetic/ordered_sum.h"

namespace mlacheck {
namespace detail {

// sum_of_lanes for C columns at once.
template <int C>
Eigen::Array<float, C, 1> sum_of_lanes(const Eigen::Array<float, C, kSumLanes>& lanes) {
  const Eigen::Array<float, C, 8> eight =
      lanes.template leftCols<8>() + lanes.template rightCols<8>();
  const Eigen::Array<float, C, 4> four =
      eight.template leftCols<4>() + eight.template rightCols<4>();
  return (four.col(0) + four.col(2)) + (four.col(1) + four.col(3));
}

template <int R, int C>
void weighted_sums_of_columns(const float* w, std::int64_t w_stride, const float* v,
                              std::int64_t v_stride, std::int64_t n, std::int64_t column,
                              float* out, std::int64_t out_stride) {
  using Columns = Eigen::Array<float, C, 1>;
  std::array<Eigen::Array<float, C, kSumLanes>, R> lanes;
  for (int l = 0; l < kSumLanes; ++l) {
    std::array<Columns, R> sums;
    sums.fill(Columns::Zero());
    for (std::int64_t j = l; j < n; j += kSumLanes) {
      const Columns values = Eigen::Map<const Columns>(v + (j * v_stride + column));
      for (std::size_t r = 0; r < R; ++r)
        sums[r] += w[static_cast<std::int64_t>(r) * w_stride + j] * values;
    }
    for (std::size_t r = 0; r < R; ++r) lanes[r].col(l) = sums[r];
  }
  for (std::size_t r = 0; r < R; ++r)
    Eigen::Map<Columns>(out + (static_cast<std::int64_t>(r) * out_stride + column)) =
        sum_of_lanes<C>(lanes[r]);
}

}  // namespace detail

// The value product: R rows of weights [R, n] times rows of values [n, columns],
//
//   out[r, c] = sum over j of w[r, j] * v[j, c]
//
// each an ordered sum (ordered_sum.h), bit for bit.
//
// Strides in elements. R = 4 rows share the load of a value (16 SSE2 registers hold no more).
template <int R>
void ordered_weighted_sums(const float* w, std::int64_t w_stride, const float* v,
                           std::int64_t v_stride, std::int64_t n, std::int64_t columns, float* out,
                           std::int64_t out_stride) {
  constexpr int kColumns = 8;
  const std::int64_t whole = columns - columns % kColumns;
  for (std::int64_t c = 0; c < whole; c += kColumns)
    detail::weighted_sums_of_columns<R, kColumns>(w, w_stride, v, v_stride, n, c, out, out_stride);
  for (std::int64_t c = whole; c < columns; ++c)
    detail::weighted_sums_of_columns<R, 1>(w, w_stride, v, v_stride, n, c, out, out_stride);
}

}  // namespace mlacheck
