#include "tools/kernel_bridge.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "tools/kernel_contract.h"

namespace mlacheck {

namespace {

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

// The inputs and outputs of a call while it is put together.
struct Parts {
  std::vector<KernelCall::Input> inputs;
  std::vector<KernelCall::Output> outputs;

  // An absent (null) optional input is left out.
  template <class T>
  void input(CallTensor tensor, const T* data, std::int64_t count) {
    if (data != nullptr)
      inputs.push_back({tensor, std::as_bytes(std::span(data, static_cast<std::size_t>(count)))});
  }
  void input(CallTensor tensor, const void* data, std::int64_t bytes) {
    input(tensor, static_cast<const std::byte*>(data), data == nullptr ? 0 : bytes);
  }
  void output(CallTensor tensor, std::int64_t count, std::size_t element_bytes) {
    outputs.push_back({tensor, static_cast<std::size_t>(count) * element_bytes});
  }
  std::unique_ptr<KernelCall> call(const mlacheck_problem& problem,
                                   const CallSeries& series = {}) const {
    return std::make_unique<KernelCall>(problem, inputs, outputs, series);
  }
};

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

// Bytes from the start of the cache to the end of its last row.
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

// To the last element; of a series, whose queries are a case's, to the end of the slack behind it.
std::int64_t query_bytes(const QueryView& q, std::int64_t tokens, std::int64_t heads,
                         std::int64_t dim, const CallSeries& series) {
  if (tokens == 0) return 0;
  const std::int64_t elements =
      series.calls > 1 ? tokens * q.token_stride
                       : (tokens - 1) * q.token_stride + (heads - 1) * q.head_stride + dim;
  return elements * static_cast<std::int64_t>(size_of(q.dtype));
}

struct Mode {
  bool batch_invariant = false;
  bool wants_max_logit = true;
  CallSeries series = {};  // among which the tokens are divided
};

std::unique_ptr<KernelCall> attention_call(const SparseAttentionProblem& p,
                                           const mlacheck_cache& cache, const void* rows,
                                           std::int64_t row_bytes, Mode mode) {
  mlacheck_problem problem = problem_of(MLACHECK_SPARSE_ATTENTION);
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
  a.q_dtype = dtype_of(p.q.dtype);
  a.out_dtype = dtype_of(p.out_dtype);
  a.sm_scale = p.sm_scale;
  a.has_topk_length = p.topk_length != nullptr ? 1 : 0;
  a.has_attn_sink = p.attn_sink != nullptr ? 1 : 0;
  a.wants_max_logit = mode.wants_max_logit ? 1 : 0;
  a.batch_invariant = mode.batch_invariant ? 1 : 0;

  Parts parts;
  parts.input(CallTensor::q, p.q.data, query_bytes(p.q, p.tokens, p.heads, p.qk_dim, mode.series));
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

// What index_scores and index_select read.
struct ScoreCall {
  explicit ScoreCall(const IndexScoresProblem& p, const CallSeries& series = {})
      : first(static_cast<std::size_t>(p.tokens), 0),
        last(static_cast<std::size_t>(p.tokens), static_cast<std::int32_t>(p.key_count)) {
    scores.tokens = p.tokens;
    scores.heads = p.heads;
    scores.dim = p.dim;
    scores.key_count = p.key_count;
    scores.q_token_stride = p.q.token_stride;
    scores.q_head_stride = p.q.head_stride;
    scores.score_stride = p.key_count;
    scores.block_table_stride = p.block_table_stride;
    scores.keys = cache_of(p.keys);
    scores.q_dtype = dtype_of(p.q.dtype);
    scores.has_block_table = p.block_table != nullptr ? 1 : 0;
    scores.has_request = p.request != nullptr ? 1 : 0;
    // The ABI has both ends of a range or neither.
    const bool has_range = p.key_begin != nullptr || p.key_end != nullptr;
    scores.has_key_range = has_range ? 1 : 0;

    parts.input(CallTensor::q, p.q.data, query_bytes(p.q, p.tokens, p.heads, p.dim, series));
    parts.input(CallTensor::cache, p.keys.data, extent(p.keys, p.dim));
    parts.input(CallTensor::weights, p.weights, p.tokens * p.heads);
    parts.input(CallTensor::block_table, p.block_table, p.requests * p.block_table_stride);
    parts.input(CallTensor::request, p.request, p.tokens);
    if (!has_range) return;
    parts.input(CallTensor::range_begin, p.key_begin != nullptr ? p.key_begin : first.data(),
                p.tokens);
    parts.input(CallTensor::range_end, p.key_end != nullptr ? p.key_end : last.data(), p.tokens);
  }

  mlacheck_index_scores_problem scores = {};
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
  Parts parts;
};

std::unique_ptr<KernelCall> scores_call(const IndexScoresProblem& p, const CallSeries& series,
                                        bool unmasked = false) {
  ScoreCall call(p, series);
  mlacheck_problem problem = problem_of(MLACHECK_INDEX_SCORES);
  problem.u.index_scores = call.scores;
  problem.u.index_scores.tokens = p.tokens / series.calls;
  problem.unmasked_scores = unmasked ? 1 : 0;
  call.parts.output(CallTensor::scores_out, p.tokens * p.key_count, sizeof(float));
  return call.parts.call(problem, series);
}

std::unique_ptr<KernelCall> select_call(const IndexScoresProblem& p, std::int64_t k,
                                        const CallSeries& series) {
  ScoreCall call(p, series);
  mlacheck_problem problem = problem_of(MLACHECK_INDEX_SELECT);
  problem.u.index_select.scores = call.scores;
  problem.u.index_select.scores.tokens = p.tokens / series.calls;
  problem.u.index_select.k = k;
  call.parts.output(CallTensor::selected, p.tokens * k, sizeof(std::int32_t));
  return call.parts.call(problem, series);
}

std::unique_ptr<KernelCall> top_k_call(const TopKProblem& p, const CallSeries& series) {
  mlacheck_problem problem = problem_of(MLACHECK_TOP_K);
  mlacheck_top_k_problem& k = problem.u.top_k;
  k.rows = p.rows / series.calls;
  k.columns = p.columns;
  k.k = p.k;
  k.score_stride = p.columns;
  k.has_row_range = p.row_begin != nullptr ? 1 : 0;

  Parts parts;
  parts.input(CallTensor::scores_in, p.scores, p.rows * p.columns);
  parts.input(CallTensor::range_begin, p.row_begin, p.rows);
  parts.input(CallTensor::range_end, p.row_end, p.rows);
  parts.output(CallTensor::selected, p.rows * p.k, sizeof(std::int32_t));
  return parts.call(problem, series);
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

IndexScoresProblem row_of(const IndexScoresProblem& problem, std::int64_t t) {
  IndexScoresProblem row = problem;
  row.tokens = 1;
  row.q.data = static_cast<const std::byte*>(row.q.data) +
               t * row.q.token_stride * static_cast<std::int64_t>(size_of(row.q.dtype));
  row.weights += t * row.heads;
  if (row.request != nullptr) row.request += t;
  if (row.key_begin != nullptr) row.key_begin += t;
  if (row.key_end != nullptr) row.key_end += t;
  return row;
}

std::unique_ptr<KernelCall> make_call(const IndexScoresProblem& p) { return scores_call(p, {}); }

std::unique_ptr<KernelCall> make_unmasked_call(const IndexScoresProblem& p) {
  return scores_call(p, {}, true);
}

std::unique_ptr<KernelCall> make_timed_call(const IndexScoresCase& scores,
                                            const TimedCalls& timed) {
  IndexScoresProblem rows = scores.problem;
  rows.tokens = timed.tokens * timed.calls;
  return scores_call(rows, {timed.calls, timed.own_caches});
}

std::int64_t selected_keys(const IndexScoresProblem& problem) {
  return std::clamp<std::int64_t>(problem.key_count / 4, 1, 2048);
}

std::unique_ptr<KernelCall> make_select_call(const IndexScoresProblem& p, std::int64_t k) {
  return select_call(p, k, {});
}

std::unique_ptr<KernelCall> make_timed_select_call(const IndexScoresCase& scores, std::int64_t k,
                                                   const TimedCalls& timed) {
  IndexScoresProblem rows = scores.problem;
  rows.tokens = timed.tokens * timed.calls;
  return select_call(rows, k, {timed.calls, timed.own_caches});
}

std::unique_ptr<KernelCall> make_map_slots_call(const IndexScoresProblem& p,
                                                const std::vector<std::int32_t>& positions) {
  mlacheck_problem problem = problem_of(MLACHECK_MAP_SLOTS);
  problem.u.map_slots = {std::ssize(positions), p.block_table_stride, p.block_size};
  Parts parts;
  parts.input(CallTensor::positions, positions.data(), std::ssize(positions));
  parts.input(CallTensor::block_table, p.block_table, p.block_table_stride);
  parts.output(CallTensor::slots, std::ssize(positions), sizeof(std::int32_t));
  return parts.call(problem);
}

std::unique_ptr<KernelCall> make_call(const TopKProblem& p) { return top_k_call(p, {}); }

std::unique_ptr<KernelCall> make_timed_call(const TopKProblem& problem, const TimedCalls& timed) {
  TopKProblem rows = problem;
  rows.rows = timed.tokens * timed.calls;
  return top_k_call(rows, {timed.calls, timed.own_caches});
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
