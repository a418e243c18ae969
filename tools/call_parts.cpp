#include "tools/call_parts.h"

#include <stdexcept>
#include <string>

namespace mlacheck::detail {

std::int32_t dtype_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MLACHECK_F32;
    case DType::f16:
      return MLACHECK_F16;
    case DType::bf16:
      return MLACHECK_BF16;
    case DType::e4m3:
      return MLACHECK_E4M3;
    default:
      throw std::invalid_argument("the kernel ABI has no element type " +
                                  std::string(name_of(dtype)));
  }
}

mlacheck_problem problem_of(mlacheck_operator op) {
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = op;
  return problem;
}

mlacheck_cache cache_of(const RowsView& rows) {
  mlacheck_cache cache = {};
  cache.format = rows.scale_offset >= 0 ? MLACHECK_CACHE_INDEX_PAGES : MLACHECK_CACHE_ROWS;
  cache.dtype = dtype_of(rows.dtype);
  cache.slots = rows.slots;
  cache.page_size = rows.page_size;
  cache.page_stride = rows.page_stride;
  cache.row_stride = rows.row_stride;
  return cache;
}

std::int64_t extent(const RowsView& rows, std::int64_t dim) {
  if (rows.slots == 0) return 0;
  const std::int64_t last = rows.slots - 1;
  const std::int64_t page = last / rows.page_size * rows.page_stride;
  // A page of scaled rows is read to the end of its scales.
  if (rows.scale_offset >= 0)
    return page + rows.scale_offset + rows.page_size * static_cast<std::int64_t>(sizeof(float));
  return page + last % rows.page_size * rows.row_stride +
         dim * static_cast<std::int64_t>(size_of(rows.dtype));
}

std::int64_t query_bytes(const QueryView& q, std::int64_t tokens, std::int64_t heads,
                         std::int64_t dim, const CallSeries& series) {
  if (tokens == 0) return 0;
  const std::int64_t elements =
      series.calls > 1 ? tokens * q.token_stride
                       : (tokens - 1) * q.token_stride + (heads - 1) * q.head_stride + dim;
  return elements * static_cast<std::int64_t>(size_of(q.dtype));
}

}  // namespace mlacheck::detail
