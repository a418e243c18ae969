#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/operators/page_layout.h"

// The 656-byte fp8 KV record ("V32", fp8_ds_mla): kv_lora_rank 512, rope 64, everything of a token
// together.
//
//   [0, 512)    e4m3 latent q
//   [512, 528)  fp32 scales s, little endian, one for each tile of 128 latents; latent ~ q * s
//   [528, 656)  bf16 rope part, unquantised
//
// Slot s lies at (s / page_size) * page_stride + (s % page_size) * 656.
//
// Every cache record has a file like this one, with its own write_cache and read_cache. The
// 584-byte record (448 e4m3 and 64 bf16, then per-page footers of e8m0 scales) belongs in
// kv_record_584.h, the 528-byte one (512 e4m3 and 16 e8m0) in kv_record_528.h.
namespace mlacheck::kv_record_656 {

inline constexpr std::int64_t kBytes = 656;
inline constexpr std::int64_t kLatent = 512;
inline constexpr std::int64_t kRope = 64;
inline constexpr std::int64_t kDim = kLatent + kRope;
inline constexpr std::int64_t kTile = 128;

// How a tile's scale is chosen (rules of block_scale.h); latents are then e4m3(x / s), saturating.
enum class Writer {
  p2_floor_on_amax,   // P2, amax >= 1e-4: DeepSeek's inference code
  p2_floor_on_scale,  // P2, amax / 448 >= 1e-4, thus amax >= 0.0448: FlashMLA's tests/quant.py
  arb,                // ARB, amax / 448 >= FLT_MIN: vLLM's concat_and_cache_ds_mla kernel
};

// How a latent is restored. The rope part is exact under each.
enum class Reader {
  // fp32(q * s): FlashInfer SM120; FlashMLA's tests/quant.py, which then rounds to bf16.
  fp32_product,
  // bf16(q * bf16(s)): FlashMLA SM90.
  bf16_scale,
  // bf16(q * e8m0(s)), e8m0 toward zero: one FlashMLA SM100 decode kernel. Right for P2 alone; a
  // scale of ARB loses up to a factor of 2.
  e8m0_scale,
};

// Writes rows[i, 0 : 576) (latent, then rope) to slots[i], in order of i; slot -1 is skipped. Bytes
// of no written slot keep their value.
// NaN: a NaN stays alone, as it does not enter amax (so does CUDA's fmaxf; torch's max would make
// its whole tile NaN). An infinite latent makes its scale infinite, and every latent of the tile
// reads back as NaN, but under e8m0_scale as 0 beside that one NaN.
// Throws std::invalid_argument, before anything is written, for a slot outside [-1, layout.slots),
// a page_stride below page_size * 656, or a size of rows other than slots.size() * 576.
void write_cache(std::byte* cache, const PageLayout& layout, std::span<const std::int32_t> slots,
                 std::span<const float> rows, Writer writer);

// Reads slots[i] into rows[i, 0 : 576); slot -1 leaves its row as it is. NaN is canonical. Throws
// like write_cache.
void read_cache(const std::byte* cache, const PageLayout& layout,
                std::span<const std::int32_t> slots, Reader reader, std::span<float> rows);

}  // namespace mlacheck::kv_record_656
