#include "property_tests/stages/attention_attempt.h"

#include <algorithm>
#include <numeric>

namespace mlacheck::stages {

AttentionAttempt::AttentionAttempt(const SparseAttentionCase& from,
                                   const NumericsContract& declared,
                                   const SparseAttentionResult& answer)
    : original(from),
      tokens(from.problem.tokens),
      heads(from.problem.heads),
      topk(from.problem.topk),
      slots(from.problem.kv.slots),
      qk_dim(from.problem.qk_dim),
      v_dim(from.problem.v_dim),
      sm_scale(from.problem.sm_scale),
      q(static_cast<std::size_t>(tokens * heads * qk_dim)),
      kv(static_cast<std::size_t>(slots * qk_dim)),
      contract(declared),
      result(answer) {
  const SparseAttentionProblem& p = from.problem;
  contract.out_dtype = p.out_dtype;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      load_row(query_address(p.q, t, h), p.q.dtype, qk_dim, query(t, h));
  for (std::int64_t slot = 0; slot < slots; ++slot)
    load_row(row_address(p.kv, slot), p.kv.dtype, qk_dim, row(slot));
  for (std::int64_t t = 0; t < tokens; ++t)
    indices.insert(indices.end(), p.indices + t * p.index_stride,
                   p.indices + t * p.index_stride + topk);
  if (p.topk_length != nullptr) lengths.assign(p.topk_length, p.topk_length + tokens);
  if (p.attn_sink != nullptr) sink.assign(p.attn_sink, p.attn_sink + heads);
}

SparseAttentionProblem AttentionAttempt::problem() const {
  SparseAttentionProblem p;
  p.tokens = tokens;
  p.heads = heads;
  p.topk = p.index_stride = topk;
  p.qk_dim = qk_dim;
  p.v_dim = v_dim;
  p.q = {q.data(), DType::f32, heads * qk_dim, qk_dim};
  p.kv = flat_rows(kv.data(), DType::f32, slots, qk_dim);
  p.indices = indices.data();
  p.topk_length = lengths.empty() ? nullptr : lengths.data();
  p.attn_sink = sink.empty() ? nullptr : sink.data();
  p.sm_scale = sm_scale;
  p.out_dtype = contract.out_dtype;
  return p;
}

bool AttentionAttempt::is_present(std::int64_t t, std::int64_t j) const {
  const std::int32_t slot = indices[static_cast<std::size_t>(t * topk + j)];
  return j < length(t) && 0 <= slot && slot < slots;
}

void AttentionAttempt::part_values() {
  const std::int64_t wide = v_dim + qk_dim;
  std::vector<float> rows(static_cast<std::size_t>(tokens * topk * wide));
  std::vector<std::int32_t> own(indices.size(), -1);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t j = 0; j < topk; ++j) {
      if (!is_present(t, j)) continue;
      const float* key = row(entry(t, j));
      float* to = rows.data() + (t * topk + j) * wide;
      std::copy_n(key, v_dim, to);
      std::copy_n(key, qk_dim, to + v_dim);
      own[static_cast<std::size_t>(t * topk + j)] = static_cast<std::int32_t>(t * topk + j);
    }
  std::vector<float> queries(static_cast<std::size_t>(tokens * heads * wide));
  for (std::int64_t i = 0; i < tokens * heads; ++i)
    std::copy_n(q.data() + i * qk_dim, qk_dim, queries.data() + i * wide + v_dim);
  kv = std::move(rows);
  q = std::move(queries);
  indices = std::move(own);
  slots = tokens * topk;
  qk_dim = wide;
}

}  // namespace mlacheck::stages
