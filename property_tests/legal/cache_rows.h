#pragma once

#include "cuda/include/mlacheck_kernel.h"
#include "reference/operators/views.h"

namespace mlacheck::legal {

inline DType dtype_of(std::int32_t dtype) {
  if (dtype == MLACHECK_F16) return DType::f16;
  if (dtype == MLACHECK_BF16) return DType::bf16;
  return dtype == MLACHECK_E4M3 ? DType::e4m3 : DType::f32;
}

inline RowsView rows_of(const mlacheck_cache& cache, const void* data) {
  RowsView view;
  view.data = data;
  view.dtype = dtype_of(cache.dtype);
  view.slots = cache.slots;
  view.page_size = cache.page_size;
  view.page_stride = cache.page_stride;
  view.row_stride = cache.row_stride;
  if (cache.format == MLACHECK_CACHE_INDEX_PAGES)
    view.scale_offset = cache.page_size * cache.row_stride;
  return view;
}

}  // namespace mlacheck::legal
