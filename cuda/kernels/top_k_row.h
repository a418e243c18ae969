#pragma once

#include "cuda/device/thread.h"
#include "cuda/kernels/top_k_arguments.h"

namespace mlacheck::kernels {

// Vectors of a row that a thread looks at together, one of each 32 that its warp does.
struct TopKTile {
  static constexpr unsigned kVectors = 4;
  static constexpr unsigned kOfBlock = kVectors * TopK::kThreads;

  device::Floats4 x[kVectors];

  // Of x[u], in the tile from a vector on.
  static MLACHECK_DEVICE_FN std::uint32_t number(std::uint32_t from, unsigned u) {
    const unsigned thread = device::thread_index();
    return from + (thread / device::kWarpSize * kVectors + u) * device::kWarpSize +
           thread % device::kWarpSize;
  }
};

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
  // Vectors of which all scores stand in the range: from the one to below the other.
  MLACHECK_DEVICE_FN std::uint32_t whole_begin() const { return before != 0 ? 1 : 0; }
  MLACHECK_DEVICE_FN std::uint32_t whole_end() const { return (before + length) / 4; }
  MLACHECK_DEVICE_FN device::Floats4 load(std::uint32_t vector) const {
    return device::load_constant(reinterpret_cast<const device::Floats4*>(origin) + vector);
  }
  MLACHECK_DEVICE_FN float load_one(std::uint32_t place) const {
    return device::load_constant(origin + before + place);
  }

  // Of vectors [from, from + kOfBlock) below `end`; none where there are none.
  MLACHECK_DEVICE_FN TopKTile load_tile(std::uint32_t from, std::uint32_t end) const;
  // Of these, bit 4 u + i: score i of x[u] stands in the range.
  MLACHECK_DEVICE_FN unsigned valid(std::uint32_t from, std::uint32_t end) const;

 private:
  // Whether all scores of the tile stand in the range.
  MLACHECK_DEVICE_FN bool is_whole(std::uint32_t from, std::uint32_t end) const {
    const std::uint32_t past = from + TopKTile::kOfBlock;
    return from >= whole_begin() && past <= end && past <= whole_end();
  }
  static MLACHECK_DEVICE_FN std::int32_t load_bound(const std::int32_t* bounds, std::uint32_t row) {
    return device::load(bounds + row);  // not before the wait for the previous kernel
  }
  static MLACHECK_DEVICE_FN std::int32_t bounded(std::int32_t x, std::int32_t low,
                                                 std::int32_t high) {
    return x < low ? low : x < high ? x : high;
  }
};

MLACHECK_DEVICE_FN TopKTile TopKRow::load_tile(std::uint32_t from, std::uint32_t end) const {
  TopKTile tile;
  if (is_whole(from, end)) {
    MLACHECK_UNROLL
    for (unsigned u = 0; u < TopKTile::kVectors; ++u) tile.x[u] = load(TopKTile::number(from, u));
    return tile;
  }
  const std::uint32_t from_whole = whole_begin(), past_whole = whole_end();
  MLACHECK_UNROLL
  for (unsigned u = 0; u < TopKTile::kVectors; ++u) {
    const std::uint32_t number = TopKTile::number(from, u);
    tile.x[u] = {};
    if (number >= from_whole && number < past_whole && number < end) tile.x[u] = load(number);
  }
  if (from_whole == 0 && past_whole == vectors) return tile;
  // The row's first vector and its last, of which some scores may stand outside.
  MLACHECK_UNROLL
  for (unsigned u = 0; u < TopKTile::kVectors; ++u) {
    const std::uint32_t number = TopKTile::number(from, u);
    if ((number >= from_whole && number < past_whole) || number >= end) continue;
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      if (place(number) + i < length) tile.x[u].value[i] = load_one(place(number) + i);
  }
  return tile;
}

MLACHECK_DEVICE_FN unsigned TopKRow::valid(std::uint32_t from, std::uint32_t end) const {
  if (is_whole(from, end)) return ~0u >> (32 - 4 * TopKTile::kVectors);
  unsigned bits = 0;
  MLACHECK_UNROLL
  for (unsigned u = 0; u < TopKTile::kVectors; ++u) {
    const std::uint32_t number = TopKTile::number(from, u);
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      if (number < end && place(number) + i < length) bits |= 1u << (4 * u + i);
  }
  return bits;
}

}  // namespace mlacheck::kernels
