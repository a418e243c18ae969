#include "reference/operators/page_layout.h"

#include "reference/operators/require.h"

namespace mlacheck::detail {

void require_slots(const PageLayout& layout, std::int64_t record_bytes,
                   std::span<const std::int32_t> slots, std::int64_t row_elements,
                   std::size_t elements, const char* where) {
  require(layout.slots >= 0, "{}: layout.slots: expected >= 0, got {}", where, layout.slots);
  require(layout.page_size >= 1, "{}: layout.page_size: expected >= 1, got {}", where,
          layout.page_size);
  require(spans(layout.page_size, record_bytes),
          "{}: layout.page_size: expected pages of at most 2^62 bytes, got {} * {}", where,
          layout.page_size, record_bytes);
  require(layout.page_stride >= layout.page_size * record_bytes,
          "{}: layout.page_stride: expected >= {} * {} bytes, got {}", where, layout.page_size,
          record_bytes, layout.page_stride);
  const std::int64_t pages = layout.slots / layout.page_size;
  require(spans(pages, layout.page_stride),
          "{}: layout.page_stride: expected at most 2^62 bytes in {} pages, got pages of {}", where,
          pages, layout.page_stride);
  const std::size_t expected = slots.size() * static_cast<std::size_t>(row_elements);
  require(elements == expected, "{}: rows: expected {} * {} elements, got {}", where, slots.size(),
          row_elements, elements);
  for (std::size_t i = 0; i < slots.size(); ++i)
    require(slots[i] >= -1 && slots[i] < layout.slots,
            "{}: slots[{}]: expected -1 or a slot of [0, {}), got {}", where, i, layout.slots,
            slots[i]);
}

}  // namespace mlacheck::detail
