#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "property_tests/legal/variants.h"
#include "property_tests/legal/vector_sum.h"
#include "tools/plugins/problem_views.h"

namespace mlacheck::legal {
namespace {

std::int64_t slot_of(const mlacheck_index_scores_problem& p, const mlacheck_tensors& t,
                     std::int64_t token, std::int64_t key) {
  if (t.block_table == nullptr) return key;
  const std::int64_t request = t.request != nullptr ? t.request[token] : 0;
  const std::int64_t block = key / p.keys.page_size;
  return t.block_table[request * p.block_table_stride + block] * p.keys.page_size +
         key % p.keys.page_size;
}

}  // namespace

void run(const ScoresVariant& variant, const mlacheck_index_scores_problem& p, bool unmasked,
         const mlacheck_tensors& t) {
  const QueryView queries{t.q, *plugin::dtype_of(p.q_dtype), p.q_token_stride, p.q_head_stride};
  const RowsView keys = plugin::rows_of(p.keys, t.cache);
  std::vector<float> q(static_cast<std::size_t>(p.heads * p.dim));
  std::vector<float> row(static_cast<std::size_t>(p.dim)),
      products(static_cast<std::size_t>(p.heads));
  for (std::int64_t token = 0; token < p.tokens; ++token) {
    for (std::int64_t head = 0; head < p.heads; ++head)
      load_row(query_address(queries, token, head), queries.dtype, p.dim, q.data() + head * p.dim);
    const std::int64_t begin = t.range_begin != nullptr ? t.range_begin[token] : 0;
    const std::int64_t end = t.range_end != nullptr ? t.range_end[token] : p.key_count;
    float* const scores = t.scores_out + token * p.score_stride;
    if (!unmasked) std::fill(scores, scores + p.key_count, -std::numeric_limits<float>::infinity());
    for (std::int64_t key = begin; key < end; ++key) {
      const std::int64_t slot = slot_of(p, t, token, key);
      load_row(row_address(keys, slot), keys.dtype, p.dim, row.data());
      for (std::int64_t head = 0; head < p.heads; ++head)
        products[static_cast<std::size_t>(head)] =
            std::max(0.0f, dot(variant.dot, q.data() + head * p.dim, row.data(), p.dim));
      scores[key] = dot(variant.heads, t.weights + token * p.heads, products.data(), p.heads) *
                    row_scale(keys, slot);
    }
  }
}

void run_top_k(const mlacheck_top_k_problem& p, const mlacheck_tensors& t) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const float* scores = t.scores_in + row * p.score_stride;
    const std::int64_t begin = t.range_begin != nullptr ? t.range_begin[row] : 0;
    const std::int64_t end = t.range_end != nullptr ? t.range_end[row] : p.columns;
    std::vector<std::int32_t> order(
        static_cast<std::size_t>(std::max(end - begin, std::int64_t{0})));
    std::iota(order.begin(), order.end(), static_cast<std::int32_t>(begin));
    std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
      const bool a_nan = std::isnan(scores[a]), b_nan = std::isnan(scores[b]);
      if (a_nan != b_nan) return a_nan;
      if (!a_nan && scores[a] != scores[b]) return scores[a] > scores[b];
      return a > b;
    });
    order.resize(static_cast<std::size_t>(p.k), -1);
    std::ranges::copy(order, t.selected + row * p.k);
  }
}

}  // namespace mlacheck::legal
