#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/operators/page_layout.h"
#include "reference/operators/views.h"

// Pages of fp8 indexer keys, 132 bytes a token: all values of a page first, then all its scales.
// The tensor is often declared [pages, page_size, 132], but a token's bytes do not lie together.
// With p = s % page_size:
//
//   e4m3 value d of slot s   (s / page_size) * page_stride + p * 128 + d
//   fp32 scale of slot s     (s / page_size) * page_stride + page_size * 128 + p * 4
//
// Page size 64 is usual; DeepGEMM on SM100 also takes 32.
namespace mlacheck::index_key_page {

inline constexpr std::int64_t kDim = 128;
inline constexpr std::int64_t kBytesPerSlot = kDim + 4;

// Writes keys[i, 0 : 128) to slots[i], in order of i, with one scale a key by rule P2
// (block_scale.h); slot -1 is skipped. amax_floor: 1e-4 in vLLM, SGLang and DeepSeek's code. Bytes
// of no written slot keep their value. A NaN stays alone: it does not enter amax. An infinity makes
// the key's scale infinite, and the key NaN to readers. Throws std::invalid_argument, before
// anything is written, for a slot outside [-1, layout.slots), a page_stride below page_size * 132,
// an amax_floor that is not positive and finite, or a size of keys other than slots.size() * 128.
void write_cache(std::byte* cache, const PageLayout& layout, std::span<const std::int32_t> slots,
                 std::span<const float> keys, float amax_floor);

// Reads slots[i] into keys[i, 0 : 128) as fp32(value * scale), which is exact for scales of rule
// P2; slot -1 leaves its key as it is. NaN is canonical. Throws like write_cache.
void read_cache(const std::byte* cache, const PageLayout& layout,
                std::span<const std::int32_t> slots, std::span<float> keys);

// The pages as index_scores reads them: e4m3 rows with their scales apart.
RowsView view(const std::byte* cache, const PageLayout& layout);

}  // namespace mlacheck::index_key_page
