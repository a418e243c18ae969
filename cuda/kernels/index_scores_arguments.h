#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.h"
#include "cuda/device/memory.h"

namespace mlacheck::kernels {

inline constexpr int kIndexDim = 128;
inline constexpr unsigned kIndexRowBytes = kIndexDim * 2;  // a head of a query, or a key
inline constexpr unsigned kKeysOfWarp = 32;
inline constexpr std::uint32_t kMostItemRows = 32;    // a lane holds a row's range
inline constexpr std::uint32_t kMostIndexWarps = 16;  // that hold keys
inline constexpr std::uint32_t kMostAheadWarps = 8;   // of index_scores_ahead

// What the index_scores kernel gets (the contract: cuda/include/mlacheck_kernel.h). An item is
// item_rows rows of queries against the keys of a block: 32 for each of its warps.
struct IndexScoresArguments {
  const std::uint16_t* q;  // [tokens, heads, 128]
  std::int64_t q_token_stride;
  std::int64_t q_head_stride;
  std::uint32_t piece_heads;  // that one copy takes: 8 where heads lie side by side, else 1
  const float* weights;       // [tokens, heads]
  const std::byte* keys;      // pages of rows
  std::int64_t page_stride;   // bytes
  std::int64_t row_stride;    // bytes
  device::Divisor page_size;
  std::int64_t slots;               // that exist
  const std::int32_t* block_table;  // [requests, block_table_stride], or null: key = slot
  std::int64_t block_table_stride;
  const std::int32_t* request;    // [tokens], or null: row 0 of the block table
  const std::int32_t* key_begin;  // [tokens], or null: 0
  const std::int32_t* key_end;    // [tokens], or null: key_count

  float* scores;  // [tokens, score_stride]
  std::int64_t score_stride;
  bool masks;  // -inf outside a row's range; else nothing is written there

  std::uint32_t tokens;
  std::int32_t heads;
  std::uint32_t key_count;
  std::uint32_t item_rows;     // 1 ... 32
  std::uint32_t warps;         // of a block that hold keys; one more feeds them
  device::Divisor key_blocks;  // of a row
  std::uint32_t items;
};

// One piece of work. Blocks take every grid_blocks()-th item; successive rows of items begin with
// another block of keys, or where the grid is a multiple of key_blocks one block would have the
// whole causal triangle's longest rows and another its shortest.
struct IndexItem {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t first_key = 0;

  IndexItem() = default;
  MLACHECK_DEVICE_FN IndexItem(const IndexScoresArguments& a, std::uint32_t number) {
    const std::uint32_t blocks = a.key_blocks.divisor();
    const std::uint32_t tile = a.key_blocks.quotient(number);
    std::uint32_t block = number - tile * blocks + tile - a.key_blocks.quotient(tile) * blocks;
    if (block >= blocks) block -= blocks;
    first_row = tile * a.item_rows;
    rows = a.tokens - first_row < a.item_rows ? a.tokens - first_row : a.item_rows;
    first_key = block * a.warps * kKeysOfWarp;
  }
};

// A row of queries, to the keys of an item.
struct alignas(16) IndexRow {
  std::uint32_t begin = 0, end = 0;  // of its keys
  std::int32_t request = 0;

  // Whether any of its keys are among `count` from `first` on.
  MLACHECK_DEVICE_FN bool reaches(std::uint32_t first, std::uint32_t count) const {
    const std::uint32_t from = begin > first ? begin : first;
    const std::uint32_t to = end < first + count ? end : first + count;
    return from < to;
  }
};

// Row r of the item; past its last, a row without keys.
MLACHECK_DEVICE_FN IndexRow index_row(const IndexScoresArguments& a, const IndexItem& item,
                                      std::uint32_t r) {
  IndexRow row;
  if (r >= item.rows) return row;
  const auto clamped = [&](std::int32_t key) {
    const std::uint32_t k = key < 0 ? 0 : static_cast<std::uint32_t>(key);
    return k < a.key_count ? k : a.key_count;
  };
  const std::uint32_t t = item.first_row + r;
  row.end = a.key_count;
  if (a.key_begin != nullptr) row.begin = clamped(device::load(a.key_begin + t));
  if (a.key_end != nullptr) row.end = clamped(device::load(a.key_end + t));
  if (a.request != nullptr) row.request = device::load(a.request + t);
  return row;
}

}  // namespace mlacheck::kernels
