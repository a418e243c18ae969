#pragma once

#include <cstdint>
#include <span>

namespace mlacheck {

// Where the slots of a paged record cache lie: slot s in page s / page_size, at place s % page_size
// of it. A page may be longer than its records; the bytes between are neither read nor written.
struct PageLayout {
  std::int64_t slots = 0;        // N; the last page may be partly used
  std::int64_t page_size = 0;    // slots of a page
  std::int64_t page_stride = 0;  // bytes from page to page
};

namespace detail {

// Throws std::invalid_argument unless pages hold page_size records of record_bytes each and span no
// more than 2^62 bytes, every slot is -1 or in [0, layout.slots), and `elements` is slots.size()
// rows of row_elements.
void require_slots(const PageLayout& layout, std::int64_t record_bytes,
                   std::span<const std::int32_t> slots, std::int64_t row_elements,
                   std::size_t elements, const char* where);

}  // namespace detail
}  // namespace mlacheck
