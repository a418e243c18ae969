#include "reference/oracle/slow_model.h"

#include <cmath>
#include <cstddef>
#include <limits>

namespace mlacheck {
namespace {

std::vector<float> row_of(const RowsView& rows, std::int64_t slot, std::int64_t dim) {
  std::vector<float> row(static_cast<std::size_t>(dim));
  load_row(row_address(rows, slot), rows.dtype, dim, row.data());
  return row;
}

std::vector<float> query_of(const QueryView& q, std::int64_t t, std::int64_t h, std::int64_t dim) {
  std::vector<float> row(static_cast<std::size_t>(dim));
  load_row(query_address(q, t, h), q.dtype, dim, row.data());
  return row;
}

long double dot(const std::vector<float>& a, const std::vector<float>& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<long double>(a[i]) * static_cast<long double>(b[i]);
  return sum;
}

}  // namespace

SlowAttention slow_sparse_attention(const SparseAttentionProblem& p, std::int64_t t,
                                    std::int64_t h) {
  const long double infinity = std::numeric_limits<long double>::infinity();
  const std::vector<float> q = query_of(p.q, t, h, p.qk_dim);
  const std::int64_t length = p.topk_length != nullptr ? p.topk_length[t] : p.topk;
  std::vector<std::vector<float>> rows;
  std::vector<long double> scores;
  long double max = -infinity;
  for (std::int64_t j = 0; j < length; ++j) {
    const std::int32_t slot = p.indices[t * p.index_stride + j];
    if (slot < 0 || slot >= p.kv.slots) continue;
    rows.push_back(row_of(p.kv, slot, p.qk_dim));
    scores.push_back(static_cast<long double>(p.sm_scale) * dot(q, rows.back()));
    max = std::fmax(max, scores.back());
  }
  SlowAttention answer{std::vector<long double>(static_cast<std::size_t>(p.v_dim)), -infinity,
                       -infinity};
  if (rows.empty()) return answer;
  long double sum = 0;
  for (const long double s : scores) sum += std::exp(s - max);
  answer.max_logit = max;
  answer.lse = max + std::log(sum);
  const long double sink =
      p.attn_sink != nullptr ? static_cast<long double>(p.attn_sink[h]) : -infinity;
  const long double factor = 1 / (1 + std::exp(sink - answer.lse));
  for (std::size_t c = 0; c < answer.out.size(); ++c) {
    for (std::size_t j = 0; j < rows.size(); ++j)
      answer.out[c] += std::exp(scores[j] - answer.lse) * static_cast<long double>(rows[j][c]);
    answer.out[c] *= factor;
  }
  return answer;
}

long double slow_index_score(const IndexScoresProblem& p, std::int64_t t, std::int64_t s) {
  const std::int64_t begin = p.key_begin != nullptr ? p.key_begin[t] : 0;
  const std::int64_t end = p.key_end != nullptr ? p.key_end[t] : p.key_count;
  if (s < begin || s >= end) return -std::numeric_limits<long double>::infinity();
  std::int64_t slot = s;
  if (p.block_table != nullptr) {
    const std::int64_t request = p.request != nullptr ? p.request[t] : 0;
    slot = p.block_table[request * p.block_table_stride + s / p.block_size] * p.block_size +
           s % p.block_size;
  }
  const std::vector<float> key = row_of(p.keys, slot, p.dim);
  long double score = 0;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const long double d = dot(query_of(p.q, t, h, p.dim), key);
    score += static_cast<long double>(p.weights[t * p.heads + h]) * (d > 0 ? d : 0.0L);
  }
  return score * static_cast<long double>(row_scale(p.keys, slot));
}

}  // namespace mlacheck
