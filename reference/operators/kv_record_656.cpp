#include "reference/operators/kv_record_656.h"

#include <array>
#include <bit>
#include <cfloat>
#include <cstring>

#include "reference/formats/bf16.h"
#include "reference/formats/block_scale.h"
#include "reference/formats/e8m0.h"
#include "reference/operators/views.h"

namespace mlacheck::kv_record_656 {
namespace {

static_assert(std::endian::native == std::endian::little,
              "scales are stored as they lie in memory");

constexpr std::int64_t kTiles = kLatent / kTile;
constexpr std::int64_t kScaleOffset = kLatent;
constexpr std::int64_t kRopeOffset = kScaleOffset + kTiles * std::int64_t{sizeof(float)};
static_assert(kRopeOffset + kRope * std::int64_t{sizeof(Bf16)} == kBytes);

std::int64_t record_offset(const PageLayout& layout, std::int64_t slot) {
  return slot / layout.page_size * layout.page_stride + slot % layout.page_size * kBytes;
}

// A floor f on amax / 448 is written as the floor 448 * f on amax, which gives the same scales.
float tile_scale(Writer writer, float amax) {
  switch (writer) {
    case Writer::p2_floor_on_amax:
      return p2_scale(amax, 1e-4f);
    case Writer::p2_floor_on_scale:
      return p2_scale(amax, 448.0f * 1e-4f);
    case Writer::arb:
      break;
  }
  return arb_scale(amax, 448.0f * FLT_MIN, Division::divide);
}

float restore(Reader reader, E4m3 q, float scale) {
  switch (reader) {
    case Reader::bf16_scale:
      return round_to(DType::bf16, to_float(q) * round_to(DType::bf16, scale));
    case Reader::e8m0_scale:
      return round_to(DType::bf16, to_float(q) * to_float(to_e8m0_toward_zero(scale)));
    case Reader::fp32_product:
      break;
  }
  return round_to(DType::f32, to_float(q) * scale);
}

void write_record(const float* row, Writer writer, std::byte* record) {
  std::array<E4m3, kLatent> latent;
  std::array<float, kTiles> scales;
  for (std::int64_t tile = 0; tile < kTiles; ++tile) {
    const float* x = row + tile * kTile;
    scales[tile] = tile_scale(writer, largest_magnitude(x, kTile));
    quantise(x, kTile, scales[tile], Division::divide, latent.data() + tile * kTile);
  }
  std::memcpy(record, latent.data(), sizeof(latent));
  std::memcpy(record + kScaleOffset, scales.data(), sizeof(scales));
  store_row(row + kLatent, DType::bf16, kRope, record + kRopeOffset);
}

void read_record(const std::byte* record, Reader reader, float* row) {
  std::array<E4m3, kLatent> latent;
  std::array<float, kTiles> scales;
  std::memcpy(latent.data(), record, sizeof(latent));
  std::memcpy(scales.data(), record + kScaleOffset, sizeof(scales));
  for (std::int64_t i = 0; i < kLatent; ++i) row[i] = restore(reader, latent[i], scales[i / kTile]);
  load_row(record + kRopeOffset, DType::bf16, kRope, row + kLatent);
}

}  // namespace

void write_cache(std::byte* cache, const PageLayout& layout, std::span<const std::int32_t> slots,
                 std::span<const float> rows, Writer writer) {
  detail::require_slots(layout, kBytes, slots, kDim, rows.size(), "kv_record_656::write_cache");
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0)
      write_record(rows.data() + i * kDim, writer, cache + record_offset(layout, slots[i]));
}

void read_cache(const std::byte* cache, const PageLayout& layout,
                std::span<const std::int32_t> slots, Reader reader, std::span<float> rows) {
  detail::require_slots(layout, kBytes, slots, kDim, rows.size(), "kv_record_656::read_cache");
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0)
      read_record(cache + record_offset(layout, slots[i]), reader, rows.data() + i * kDim);
}

}  // namespace mlacheck::kv_record_656
