#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/formats/dtype.h"

namespace mlacheck {

// Read-only queries [tokens, heads, dim]; the dim elements of a head are contiguous.
struct QueryView {
  const void* data = nullptr;
  DType dtype = DType::f32;       // f32, f16, bf16 (e4m3 for quantised index queries)
  std::int64_t token_stride = 0;  // elements
  std::int64_t head_stride = 0;   // elements
};

// Address of the dim elements of one head.
const std::byte* query_address(const QueryView& view, std::int64_t token, std::int64_t head);

// Read-only rows of a cache, addressed by physical slot: page = slot / page_size, and within the
// page the row slot % page_size. A flat cache is one page of `slots` rows. Nothing outside
// [0, slots) is ever read.
struct RowsView {
  const void* data = nullptr;
  DType dtype = DType::f32;      // f32, f16, bf16, e4m3
  std::int64_t slots = 0;        // N
  std::int64_t page_size = 0;    // rows of a page
  std::int64_t page_stride = 0;  // bytes from page to page
  std::int64_t row_stride = 0;   // bytes from row to row inside a page
  // Bytes from the start of a page to its fp32 scales, one a row (indexer key pages: values first,
  // then scales); -1 where rows have no scale.
  std::int64_t scale_offset = -1;
};

// A contiguous flat cache [slots, dim].
RowsView flat_rows(const void* data, DType dtype, std::int64_t slots, std::int64_t dim);

// Address of a row; slot in [0, view.slots).
const std::byte* row_address(const RowsView& view, std::int64_t slot);

// The row's scale, or 1 where the view has none.
float row_scale(const RowsView& view, std::int64_t slot);

// Throw std::invalid_argument naming `field` and its member when a view cannot hold [tokens, heads,
// dim], or rows of dim elements: null data, a stride below one row, a dtype that is no float, rows
// or pages that span more than 2^62 bytes.
void require_queries(const QueryView& view, std::int64_t tokens, std::int64_t heads,
                     std::int64_t dim, const char* field);
void require_rows(const RowsView& view, std::int64_t dim, const char* field);

// Widens n contiguous elements to fp32 (exact; NaN becomes canonical). dtype: f32, f16, bf16, e4m3.
void load_row(const void* source, DType dtype, std::int64_t n, float* destination);

// Rounds n fp32 values to dtype (f32, f16, bf16: nearest even; e4m3: saturating) and stores them
// contiguously.
void store_row(const float* source, DType dtype, std::int64_t n, void* destination);

// x rounded to dtype and widened again.
float round_to(DType dtype, float x);

}  // namespace mlacheck
