// Calls of index_scores, index_select, map_slots and top_k.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/call_parts.h"
#include "tools/kernel_bridge.h"

namespace mlacheck {

namespace {

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
    scores.keys = detail::cache_of(p.keys);
    scores.q_dtype = detail::dtype_of(p.q.dtype);
    scores.has_block_table = p.block_table != nullptr ? 1 : 0;
    scores.has_request = p.request != nullptr ? 1 : 0;
    // The ABI has both ends of a range or neither.
    const bool has_range = p.key_begin != nullptr || p.key_end != nullptr;
    scores.has_key_range = has_range ? 1 : 0;

    parts.input(CallTensor::q, p.q.data,
                detail::query_bytes(p.q, p.tokens, p.heads, p.dim, series));
    parts.input(CallTensor::cache, p.keys.data, detail::extent(p.keys, p.dim));
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
  detail::CallParts parts;
};

std::unique_ptr<KernelCall> scores_call(const IndexScoresProblem& p, const CallSeries& series,
                                        bool unmasked = false) {
  ScoreCall call(p, series);
  mlacheck_problem problem = detail::problem_of(MLACHECK_INDEX_SCORES);
  problem.u.index_scores = call.scores;
  problem.u.index_scores.tokens = p.tokens / series.calls;
  problem.unmasked_scores = unmasked ? 1 : 0;
  call.parts.output(CallTensor::scores_out, p.tokens * p.key_count, sizeof(float));
  return call.parts.call(problem, series);
}

std::unique_ptr<KernelCall> select_call(const IndexScoresProblem& p, std::int64_t k,
                                        const CallSeries& series) {
  ScoreCall call(p, series);
  mlacheck_problem problem = detail::problem_of(MLACHECK_INDEX_SELECT);
  problem.u.index_select.scores = call.scores;
  problem.u.index_select.scores.tokens = p.tokens / series.calls;
  problem.u.index_select.k = k;
  call.parts.output(CallTensor::selected, p.tokens * k, sizeof(std::int32_t));
  return call.parts.call(problem, series);
}

std::unique_ptr<KernelCall> top_k_call(const TopKProblem& p, const CallSeries& series) {
  mlacheck_problem problem = detail::problem_of(MLACHECK_TOP_K);
  mlacheck_top_k_problem& k = problem.u.top_k;
  k.rows = p.rows / series.calls;
  k.columns = p.columns;
  k.k = p.k;
  k.score_stride = p.columns;
  k.has_row_range = p.row_begin != nullptr ? 1 : 0;

  detail::CallParts parts;
  parts.input(CallTensor::scores_in, p.scores, p.rows * p.columns);
  parts.input(CallTensor::range_begin, p.row_begin, p.rows);
  parts.input(CallTensor::range_end, p.row_end, p.rows);
  parts.output(CallTensor::selected, p.rows * p.k, sizeof(std::int32_t));
  return parts.call(problem, series);
}

}  // namespace

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
  mlacheck_problem problem = detail::problem_of(MLACHECK_MAP_SLOTS);
  problem.u.map_slots = {std::ssize(positions), p.block_table_stride, p.block_size};
  detail::CallParts parts;
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

}  // namespace mlacheck
