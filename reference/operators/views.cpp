#include "reference/operators/views.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"
#include "reference/operators/require.h"

namespace mlacheck {
namespace {

// Elements go through memcpy: a page of 132-byte rows aligns nothing.
template <typename Element>
Element load(const std::byte* source) {
  Element element;
  std::memcpy(&element, source, sizeof(Element));
  return element;
}

template <typename Element>
void widen(const void* source, std::int64_t n, float* destination) {
  const auto* bytes = static_cast<const std::byte*>(source);
  for (std::int64_t i = 0; i < n; ++i)
    destination[i] =
        to_float(load<Element>(bytes + i * static_cast<std::int64_t>(sizeof(Element))));
}

template <typename Element, typename Round>
void narrow(const float* source, std::int64_t n, void* destination, Round round) {
  auto* bytes = static_cast<std::byte*>(destination);
  for (std::int64_t i = 0; i < n; ++i) {
    const Element element = round(source[i]);
    std::memcpy(bytes + i * static_cast<std::int64_t>(sizeof(Element)), &element, sizeof(Element));
  }
}

float canonical(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }

[[noreturn]] void refuse(DType dtype) {
  throw std::invalid_argument(
      fmt::format("dtype: expected f32, f16, bf16 or e4m3, got {}", name_of(dtype)));
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::e4m3;
}

void require_at_least(const char* field, const char* member, std::int64_t least,
                      std::int64_t value) {
  detail::require(value >= least, "{}.{}: expected >= {}, got {}", field, member, least, value);
}

void require_storage(const char* field, DType dtype, const void* data, bool empty) {
  detail::require(is_float(dtype), "{}.dtype: expected f32, f16, bf16 or e4m3, got {}", field,
                  name_of(dtype));
  detail::require(empty || data != nullptr, "{}.data: expected an address, got null", field);
}

}  // namespace

const std::byte* query_address(const QueryView& view, std::int64_t token, std::int64_t head) {
  return static_cast<const std::byte*>(view.data) +
         (token * view.token_stride + head * view.head_stride) *
             static_cast<std::int64_t>(size_of(view.dtype));
}

RowsView flat_rows(const void* data, DType dtype, std::int64_t slots, std::int64_t dim) {
  RowsView view;
  view.data = data;
  view.dtype = dtype;
  view.slots = slots;
  view.page_size = std::max<std::int64_t>(slots, 1);
  view.row_stride = dim * static_cast<std::int64_t>(size_of(dtype));
  view.page_stride = view.page_size * view.row_stride;
  return view;
}

const std::byte* row_address(const RowsView& view, std::int64_t slot) {
  return static_cast<const std::byte*>(view.data) + slot / view.page_size * view.page_stride +
         slot % view.page_size * view.row_stride;
}

float row_scale(const RowsView& view, std::int64_t slot) {
  if (view.scale_offset < 0) return 1.0f;
  const std::byte* page =
      static_cast<const std::byte*>(view.data) + slot / view.page_size * view.page_stride;
  return load<float>(page + view.scale_offset +
                     slot % view.page_size * static_cast<std::int64_t>(sizeof(float)));
}

void require_queries(const QueryView& view, std::int64_t tokens, std::int64_t heads,
                     std::int64_t dim, const char* field) {
  require_storage(field, view.dtype, view.data, tokens == 0);
  if (tokens > 1) require_at_least(field, "token_stride", dim, view.token_stride);
  if (heads > 1) require_at_least(field, "head_stride", dim, view.head_stride);
}

void require_rows(const RowsView& view, std::int64_t dim, const char* field) {
  require_storage(field, view.dtype, view.data, view.slots == 0);
  require_at_least(field, "slots", 0, view.slots);
  require_at_least(field, "scale_offset", -1, view.scale_offset);
  if (view.slots == 0) return;
  require_at_least(field, "page_size", 1, view.page_size);
  const auto row_bytes = dim * static_cast<std::int64_t>(size_of(view.dtype));
  if (view.page_size > 1) require_at_least(field, "row_stride", row_bytes, view.row_stride);
  const std::int64_t rows = std::min(view.slots, view.page_size);
  detail::require(rows == 1 || detail::spans(rows, view.row_stride),
                  "{}.row_stride: expected at most 2^62 bytes in {} rows, got rows of {}", field,
                  rows, view.row_stride);
  if (view.slots <= view.page_size) return;
  const std::int64_t rows_end = (view.page_size - 1) * view.row_stride + row_bytes;
  const std::int64_t scales_end =
      view.scale_offset + view.page_size * static_cast<std::int64_t>(sizeof(float));
  require_at_least(field, "page_stride",
                   view.scale_offset < 0 ? rows_end : std::max(rows_end, scales_end),
                   view.page_stride);
  const std::int64_t pages = (view.slots - 1) / view.page_size;
  detail::require(detail::spans(pages, view.page_stride),
                  "{}.page_stride: expected at most 2^62 bytes in {} pages, got pages of {}", field,
                  pages, view.page_stride);
}

void load_row(const void* source, DType dtype, std::int64_t n, float* destination) {
  switch (dtype) {
    case DType::f32:
      if (n > 0) std::memcpy(destination, source, static_cast<std::size_t>(n) * sizeof(float));
      std::transform(destination, destination + n, destination, canonical);
      return;
    case DType::f16:
      return widen<F16>(source, n, destination);
    case DType::bf16:
      return widen<Bf16>(source, n, destination);
    case DType::e4m3:
      return widen<E4m3>(source, n, destination);
    default:
      refuse(dtype);
  }
}

void store_row(const float* source, DType dtype, std::int64_t n, void* destination) {
  switch (dtype) {
    case DType::f32:
      return narrow<float>(source, n, destination, canonical);
    case DType::f16:
      return narrow<F16>(source, n, destination, to_f16);
    case DType::bf16:
      return narrow<Bf16>(source, n, destination, to_bf16);
    case DType::e4m3:
      return narrow<E4m3>(source, n, destination, to_e4m3_saturating);
    default:
      refuse(dtype);
  }
}

float round_to(DType dtype, float x) {
  switch (dtype) {
    case DType::f32:
      return canonical(x);
    case DType::f16:
      return to_float(to_f16(x));
    case DType::bf16:
      return to_float(to_bf16(x));
    case DType::e4m3:
      return to_float(to_e4m3_saturating(x));
    default:
      refuse(dtype);
  }
}

}  // namespace mlacheck
