#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.h"
#include "cuda/device/memory.h"
#include "cuda/device/thread.h"

namespace mlacheck::kernels {

inline constexpr int kQkDim = 576;
inline constexpr int kVDim = 512;
inline constexpr int kTileRows = 16;                   // KV rows that are gathered together
inline constexpr unsigned kRowBytes = kQkDim * 2;      // a row of f16 or bf16
inline constexpr unsigned kRowPitch = kRowBytes + 16;  // in shared memory: no bank conflicts
inline constexpr float kRaiseThreshold = 8;            // log2; see online_softmax.h

// What the sparse_attention kernels get (the contract: cuda/include/mlacheck_kernel.h).
//
// The entries of a row of indices are taken in chunks of `chunk`; each chunk gives a partial result
// (out, max, sum), and these are folded in order. A block does the chunks of one row and one group
// of heads one after another, or, where `split`, a block does one chunk and combine folds them: the
// same operations in the same order, hence the same bits.
struct SparseAttentionArguments {
  const std::uint16_t* q;  // [tokens, heads, 576]
  std::int64_t q_token_stride;
  std::int64_t q_head_stride;
  const std::byte* kv;       // slots: page slot / page_size, row slot % page_size
  std::int64_t page_stride;  // bytes
  std::int64_t row_stride;   // bytes
  device::Divisor page_size;
  std::uint32_t slots;
  const std::int32_t* indices;  // [tokens, topk]
  std::int64_t index_stride;
  const std::int32_t* topk_length;  // [tokens] or null
  const float* attn_sink;           // [heads] or null
  float scale_log2;                 // sm_scale * log2(e)

  void* out;         // [tokens, heads, 512], f32 where out_f32, else the element of q
  float* lse;        // [tokens, heads]
  float* max_logit;  // [tokens, heads] or null
  bool out_f32;

  std::int32_t heads;
  std::int32_t topk;
  std::int32_t chunk;           // entries; a multiple of 16
  device::Divisor by_chunk;     // the same, to divide by
  device::Divisor head_groups;  // blocks that share a token
  device::Divisor chunks;       // of a row, where split; else 1
  std::uint32_t items;          // tokens * head_groups * chunks
  bool split;
  std::int32_t combine_blocks;  // of combine, along the columns of 16 heads: 1 ... 8

  // Of an item where split; of a block, for its chunks so far, where not.
  float* partial_out;  // [items or blocks][heads of a group * 512], in the order of the fragments
  float* partial_max;  // [items][heads of a group], log2 units
  float* partial_sum;  // the same
  float* partial_largest;  // the same: the largest score
};

// One piece of work: entries [begin, end) of a token's indices, for one group of heads.
struct Item {
  std::uint32_t number;
  std::uint32_t token;
  std::uint32_t group;
  std::int32_t begin;
  std::int32_t end;

  // Of the chunk that starts at entry `from`; 0 for a row without entries.
  MLACHECK_DEVICE_FN std::int32_t tiles(std::int32_t from, std::int32_t chunk) const {
    const std::int32_t to = from + chunk < end ? from + chunk : end;
    return to <= from ? 0 : (to - from + kTileRows - 1) / kTileRows;
  }
};

MLACHECK_DEVICE_FN std::int32_t row_length(const SparseAttentionArguments& a, std::uint32_t token) {
  if (a.topk_length == nullptr) return a.topk;
  const std::int32_t length = device::load(a.topk_length + token);
  return length < 0 ? 0 : length < a.topk ? length : a.topk;
}

// That are folded for a row of this length; an empty row has one too.
MLACHECK_DEVICE_FN std::int32_t row_chunks(const SparseAttentionArguments& a, std::int32_t length) {
  const auto chunks = static_cast<std::int32_t>(
      a.by_chunk.quotient(static_cast<std::uint32_t>(length + a.chunk - 1)));
  return chunks > 1 ? chunks : 1;
}

// Calls work(item) for every item of this block. A chunk past the row's length is none, but the
// first always is one: somebody must write an empty row's result.
template <class Work>
MLACHECK_DEVICE_FN void for_each_item(const SparseAttentionArguments& a, Work work) {
  MLACHECK_ROLLED
  for (std::uint32_t i = device::block_index(); i < a.items; i += device::grid_blocks()) {
    const std::uint32_t row = a.chunks.quotient(i);
    Item item;
    item.number = i;
    item.token = a.head_groups.quotient(row);
    item.group = row - item.token * a.head_groups.divisor();
    item.begin = static_cast<std::int32_t>(i - row * a.chunks.divisor()) * a.chunk;
    item.end = row_length(a, item.token);
    if (a.split && item.end > item.begin + a.chunk) item.end = item.begin + a.chunk;
    if (item.begin > 0 && item.begin >= item.end) continue;
    work(item);
  }
}

}  // namespace mlacheck::kernels
