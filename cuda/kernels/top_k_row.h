#pragma once

#include "cuda/kernels/top_k_arguments.h"

namespace mlacheck::kernels {

// A row's range of scores, as vectors of four that are 16-byte aligned; the first and the last may
// reach outside of it. A score's place counts from the range's first.
struct TopKRow {
  const float* origin;   // of vector 0
  std::uint32_t before;  // scores of vector 0 that stand before the range: 0 ... 3
  std::uint32_t length;
  std::uint32_t vectors;
  std::int32_t first;  // the index of place 0

  MLACHECK_DEVICE_FN TopKRow(const TopKArguments& a, std::uint32_t row) {
    const std::int32_t end =
        bounded(a.row_end == nullptr ? a.columns : load_bound(a.row_end, row), 0, a.columns);
    first = bounded(a.row_begin == nullptr ? 0 : load_bound(a.row_begin, row), 0, end);
    length = static_cast<std::uint32_t>(end - first);
    origin = a.scores + std::int64_t{row} * a.score_stride + first;
    before =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(origin) / sizeof(float) % 4);
    origin -= before;
    vectors = (before + length + 3) / 4;
  }

  // Of a vector's first score; wraps around where that stands before the range.
  MLACHECK_DEVICE_FN std::uint32_t place(std::uint32_t vector) const { return 4 * vector - before; }
  MLACHECK_DEVICE_FN device::Floats4 load(std::uint32_t vector) const {
    return device::load_constant(reinterpret_cast<const device::Floats4*>(origin) + vector);
  }
  MLACHECK_DEVICE_FN float load_one(std::uint32_t place) const {
    return device::load_constant(origin + before + place);
  }

 private:
  static MLACHECK_DEVICE_FN std::int32_t load_bound(const std::int32_t* bounds, std::uint32_t row) {
    return device::load_constant(bounds + row);
  }
  static MLACHECK_DEVICE_FN std::int32_t bounded(std::int32_t x, std::int32_t low,
                                                 std::int32_t high) {
    return x < low ? low : x < high ? x : high;
  }
};

}  // namespace mlacheck::kernels
