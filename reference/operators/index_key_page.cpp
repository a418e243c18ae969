#include "reference/operators/index_key_page.h"

#include <array>
#include <bit>
#include <cfloat>
#include <cstring>

#include "reference/formats/block_scale.h"
#include "reference/operators/require.h"

namespace mlacheck::index_key_page {
namespace {

static_assert(std::endian::native == std::endian::little,
              "scales are stored as they lie in memory");

std::int64_t value_offset(const PageLayout& layout, std::int64_t slot) {
  return slot / layout.page_size * layout.page_stride + slot % layout.page_size * kDim;
}

std::int64_t scale_offset(const PageLayout& layout, std::int64_t slot) {
  return slot / layout.page_size * layout.page_stride + layout.page_size * kDim +
         slot % layout.page_size * std::int64_t{sizeof(float)};
}

}  // namespace

void write_cache(std::byte* cache, const PageLayout& layout, std::span<const std::int32_t> slots,
                 std::span<const float> keys, float amax_floor) {
  constexpr const char* kWhere = "index_key_page::write_cache";
  detail::require_slots(layout, kBytesPerSlot, slots, kDim, keys.size(), kWhere);
  detail::require(amax_floor > 0 && amax_floor <= FLT_MAX,
                  "{}: amax_floor: expected a positive finite number, got {}", kWhere, amax_floor);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0) continue;
    const float* key = keys.data() + i * kDim;
    const float scale = p2_scale(largest_magnitude(key, kDim), amax_floor);
    std::array<E4m3, kDim> values;
    quantise(key, kDim, scale, Division::divide, values.data());
    std::memcpy(cache + value_offset(layout, slots[i]), values.data(), sizeof(values));
    std::memcpy(cache + scale_offset(layout, slots[i]), &scale, sizeof(scale));
  }
}

void read_cache(const std::byte* cache, const PageLayout& layout,
                std::span<const std::int32_t> slots, std::span<float> keys) {
  detail::require_slots(layout, kBytesPerSlot, slots, kDim, keys.size(),
                        "index_key_page::read_cache");
  const RowsView rows = view(cache, layout);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0) continue;
    float* key = keys.data() + i * kDim;
    load_row(row_address(rows, slots[i]), rows.dtype, kDim, key);
    const float scale = row_scale(rows, slots[i]);
    for (std::int64_t d = 0; d < kDim; ++d) key[d] = round_to(DType::f32, key[d] * scale);
  }
}

RowsView view(const std::byte* cache, const PageLayout& layout) {
  RowsView rows;
  rows.data = cache;
  rows.dtype = DType::e4m3;
  rows.slots = layout.slots;
  rows.page_size = layout.page_size;
  rows.page_stride = layout.page_stride;
  rows.row_stride = kDim;
  rows.scale_offset = layout.page_size * kDim;
  return rows;
}

}  // namespace mlacheck::index_key_page
