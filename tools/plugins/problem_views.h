#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/kv_record_656.h"
#include "reference/operators/sparse_attention.h"

// What a kernel library written against the operators makes of the C structs that it is called
// with.
namespace mlacheck::plugin {

inline void say(char* why, std::size_t size, const std::string& text) {
  if (size == 0) return;
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, why);
  why[length] = '\0';
}

inline std::optional<DType> dtype_of(std::int32_t dtype) {
  switch (dtype) {
    case MLACHECK_F32:
      return DType::f32;
    case MLACHECK_F16:
      return DType::f16;
    case MLACHECK_BF16:
      return DType::bf16;
    case MLACHECK_E4M3:
      return DType::e4m3;
    default:
      return std::nullopt;
  }
}

inline RowsView rows_of(const mlacheck_cache& cache, const void* data) {
  RowsView view;
  view.data = data;
  view.dtype = *dtype_of(cache.dtype);
  view.slots = cache.slots;
  view.page_size = cache.page_size;
  view.page_stride = cache.page_stride;
  view.row_stride = cache.row_stride;
  if (cache.format == MLACHECK_CACHE_INDEX_PAGES)
    view.scale_offset = cache.page_size * cache.row_stride;
  return view;
}

// Every slot of a cache of 656-byte records, values as bf16_scale reads them.
inline std::vector<float> read_records(const mlacheck_cache& cache, const void* data) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(cache.slots));
  std::iota(slots.begin(), slots.end(), 0);
  std::vector<float> rows(slots.size() * kv_record_656::kDim);
  kv_record_656::read_cache(static_cast<const std::byte*>(data),
                            {cache.slots, cache.page_size, cache.page_stride}, slots,
                            kv_record_656::Reader::bf16_scale, rows);
  return rows;
}

// A call's problem; records are widened first.
struct AttentionView {
  AttentionView(const mlacheck_sparse_attention_problem& p, const mlacheck_tensors& t) {
    problem.tokens = p.tokens;
    problem.heads = p.heads;
    problem.topk = p.topk;
    problem.qk_dim = p.qk_dim;
    problem.v_dim = p.v_dim;
    problem.q = {t.q, *dtype_of(p.q_dtype), p.q_token_stride, p.q_head_stride};
    if (p.kv.format == MLACHECK_CACHE_FP8_656) {
      records = read_records(p.kv, t.cache);
      problem.kv = flat_rows(records.data(), DType::f32, p.kv.slots, p.qk_dim);
    } else {
      problem.kv = rows_of(p.kv, t.cache);
    }
    problem.indices = t.indices;
    problem.index_stride = p.index_stride;
    problem.topk_length = t.topk_length;
    problem.attn_sink = t.attn_sink;
    problem.sm_scale = p.sm_scale;
    problem.out_dtype = *dtype_of(p.out_dtype);
  }
  AttentionView(const AttentionView&) = delete;
  AttentionView& operator=(const AttentionView&) = delete;

  SparseAttentionProblem problem;
  std::vector<float> records;
};

inline void store(const SparseAttentionResult& result, const mlacheck_sparse_attention_problem& p,
                  const mlacheck_tensors& t) {
  store_row(result.out.data(), *dtype_of(p.out_dtype), static_cast<std::int64_t>(result.out.size()),
            t.out);
  std::copy(result.lse.begin(), result.lse.end(), t.lse);
  if (p.wants_max_logit != 0)
    std::copy(result.max_logit.begin(), result.max_logit.end(), t.max_logit);
}

inline IndexScoresProblem view_of(const mlacheck_index_scores_problem& p,
                                  const mlacheck_tensors& t) {
  IndexScoresProblem problem;
  problem.tokens = p.tokens;
  problem.heads = p.heads;
  problem.dim = p.dim;
  problem.key_count = p.key_count;
  problem.q = {t.q, *dtype_of(p.q_dtype), p.q_token_stride, p.q_head_stride};
  problem.weights = t.weights;
  problem.keys = rows_of(p.keys, t.cache);
  problem.block_table = t.block_table;
  for (std::int64_t row = 0; t.request != nullptr && row < p.tokens; ++row)
    problem.requests = std::max<std::int64_t>(problem.requests, t.request[row] + std::int64_t{1});
  problem.block_table_stride = p.block_table_stride;
  problem.block_size = p.keys.page_size;
  problem.request = t.request;
  problem.key_begin = t.range_begin;
  problem.key_end = t.range_end;
  return problem;
}

inline void store(const std::vector<float>& scores, const mlacheck_index_scores_problem& p,
                  const mlacheck_tensors& t) {
  for (std::int64_t row = 0; row < p.tokens; ++row)
    std::copy_n(scores.begin() + row * p.key_count, p.key_count,
                t.scores_out + row * p.score_stride);
}

}  // namespace mlacheck::plugin
