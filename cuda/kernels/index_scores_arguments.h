#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.h"
#include "cuda/device/memory.h"

namespace mlacheck::kernels {

inline constexpr int kIndexDim = 128;
inline constexpr unsigned kIndexRowBytes = kIndexDim * 2;  // a head of a query, or a key
inline constexpr unsigned kKeysOfWarp = 32;
inline constexpr std::uint32_t kMostItemRows = 32;  // a lane holds a row's range
inline constexpr std::uint32_t kMostIndexWarps = 8;

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

  std::uint32_t tokens;
  std::int32_t heads;
  std::uint32_t key_count;
  std::uint32_t item_rows;     // 1 ... 32
  std::uint32_t warps;         // of a block
  device::Divisor key_blocks;  // of a row
  std::uint32_t items;
};

// One piece of work. Blocks take every grid_blocks()-th item; successive rows of items begin with
// another block of keys, or where the grid is a multiple of key_blocks one block would have the
// whole causal triangle's longest rows and another its shortest.
struct IndexItem {
  std::uint32_t first_row;
  std::uint32_t rows;
  std::uint32_t first_key;

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

}  // namespace mlacheck::kernels
