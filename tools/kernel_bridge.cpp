#include "tools/kernel_bridge.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "tools/call_parts.h"
#include "tools/kernel_contract.h"

namespace mlacheck {

namespace {

using detail::cache_of;
using detail::extent;

struct Mode {
  bool batch_invariant = false;
  bool wants_max_logit = true;
  CallSeries series = {};  // among which the tokens are divided
};

std::unique_ptr<KernelCall> attention_call(const SparseAttentionProblem& p,
                                           const mlacheck_cache& cache, const void* rows,
                                           std::int64_t row_bytes, Mode mode) {
  mlacheck_problem problem = detail::problem_of(MLACHECK_SPARSE_ATTENTION);
  mlacheck_sparse_attention_problem& a = problem.u.sparse_attention;
  a.tokens = p.tokens / mode.series.calls;
  a.heads = p.heads;
  a.topk = p.topk;
  a.qk_dim = p.qk_dim;
  a.v_dim = p.v_dim;
  a.q_token_stride = p.q.token_stride;
  a.q_head_stride = p.q.head_stride;
  a.index_stride = p.index_stride;
  a.kv = cache;
  a.q_dtype = detail::dtype_of(p.q.dtype);
  a.out_dtype = detail::dtype_of(p.out_dtype);
  a.sm_scale = p.sm_scale;
  a.has_topk_length = p.topk_length != nullptr ? 1 : 0;
  a.has_attn_sink = p.attn_sink != nullptr ? 1 : 0;
  a.wants_max_logit = mode.wants_max_logit ? 1 : 0;
  a.batch_invariant = mode.batch_invariant ? 1 : 0;

  detail::CallParts parts;
  parts.input(CallTensor::q, p.q.data,
              detail::query_bytes(p.q, p.tokens, p.heads, p.qk_dim, mode.series));
  parts.input(CallTensor::cache, rows, row_bytes);
  parts.input(CallTensor::indices, p.indices,
              p.tokens == 0 ? 0 : (p.tokens - 1) * p.index_stride + p.topk);
  parts.input(CallTensor::topk_length, p.topk_length, p.tokens);
  parts.input(CallTensor::attn_sink, p.attn_sink, p.heads);
  parts.output(CallTensor::out, p.tokens * p.heads * p.v_dim, size_of(p.out_dtype));
  parts.output(CallTensor::lse, p.tokens * p.heads, sizeof(float));
  if (mode.wants_max_logit) parts.output(CallTensor::max_logit, p.tokens * p.heads, sizeof(float));
  return parts.call(problem, mode.series);
}

// A problem on the case's cache: its own 656-byte records where it has them.
std::unique_ptr<KernelCall> case_call(const SparseAttentionCase& attention,
                                      const SparseAttentionProblem& problem, Mode mode) {
  const SparseAttentionRecipe& recipe = attention.recipe;
  if (recipe.kv != KvFormat::record656)
    return attention_call(problem, cache_of(problem.kv), problem.kv.data,
                          extent(problem.kv, problem.qk_dim), mode);
  mlacheck_cache cache = {};
  cache.format = MLACHECK_CACHE_FP8_656;
  cache.dtype = MLACHECK_E4M3;
  cache.slots = recipe.slots;
  cache.page_size =
      recipe.page_size == 0 ? std::max<std::int64_t>(recipe.slots, 1) : recipe.page_size;
  cache.row_stride = kv_record_656::kBytes;
  cache.page_stride = attention.cache_page_stride();
  const std::span<const std::byte> records = attention.cache_bytes();
  return attention_call(problem, cache, records.data(), std::ssize(records), mode);
}

template <class T>
std::vector<T> copy_of(const KernelCall& call, CallTensor tensor) {
  const std::span<const std::byte> bytes = call.tensor(tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

std::unique_ptr<KernelCall> make_call(const SparseAttentionProblem& p) {
  return attention_call(p, cache_of(p.kv), p.kv.data, extent(p.kv, p.qk_dim), {});
}

std::unique_ptr<KernelCall> make_call(const SparseAttentionCase& attention) {
  return case_call(attention, attention.problem, {});
}

std::unique_ptr<KernelCall> make_batch_invariant_call(const SparseAttentionCase& attention) {
  return case_call(attention, attention.problem, {.batch_invariant = true});
}

SparseAttentionProblem row_of(const SparseAttentionProblem& problem, std::int64_t t) {
  SparseAttentionProblem row = problem;
  row.tokens = 1;
  row.q.data = static_cast<const std::byte*>(row.q.data) +
               t * row.q.token_stride * static_cast<std::int64_t>(size_of(row.q.dtype));
  row.indices += t * row.index_stride;
  if (row.topk_length != nullptr) row.topk_length += t;
  return row;
}

std::unique_ptr<KernelCall> make_solo_call(const SparseAttentionCase& attention, std::int64_t t) {
  return case_call(attention, row_of(attention.problem, t),
                   {.batch_invariant = true, .wants_max_logit = false});
}

std::unique_ptr<KernelCall> make_timed_call(const SparseAttentionCase& attention,
                                            const TimedCalls& timed) {
  SparseAttentionProblem rows = attention.problem;
  rows.tokens = timed.tokens * timed.calls;
  return case_call(attention, rows,
                   {.batch_invariant = timed.batch_invariant,
                    .wants_max_logit = false,
                    .series = {timed.calls, timed.own_caches}});
}

SparseAttentionResult attention_result(const KernelCall& call) {
  const mlacheck_sparse_attention_problem& p = call.problem().u.sparse_attention;
  SparseAttentionResult result;
  result.out.resize(static_cast<std::size_t>(p.tokens * p.heads * p.v_dim));
  load_row(call.tensor(CallTensor::out).data(), dtype_of(p.out_dtype),
           static_cast<std::int64_t>(result.out.size()), result.out.data());
  result.lse = copy_of<float>(call, CallTensor::lse);
  result.max_logit = copy_of<float>(call, CallTensor::max_logit);
  return result;
}

std::vector<float> scores_result(const KernelCall& call) {
  return copy_of<float>(call, CallTensor::scores_out);
}

std::vector<std::int32_t> selected_result(const KernelCall& call) {
  return copy_of<std::int32_t>(call, CallTensor::selected);
}

std::vector<std::int32_t> slots_result(const KernelCall& call) {
  return copy_of<std::int32_t>(call, CallTensor::slots);
}

}  // namespace mlacheck
