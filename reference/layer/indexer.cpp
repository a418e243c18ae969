#include "reference/layer/indexer.h"

#include <cmath>
#include <cstring>
#include <span>

#include "reference/formats/block_scale.h"
#include "reference/layer/hadamard.h"
#include "reference/layer/layer_norm.h"
#include "reference/layer/linear.h"
#include "reference/operators/top_k.h"

namespace mlacheck {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Index queries or keys as they are scored: n vectors of dim and a scale for each.
struct ScoredVectors {
  std::int64_t dim = 0;
  DType dtype = DType::f32;
  std::vector<float> values;  // when dtype is f32
  std::vector<E4m3> codes;    // when dtype is e4m3
  std::vector<float> scales;

  const void* data() const {
    if (dtype == DType::e4m3) return codes.data();
    return values.data();
  }
};

// P above. Row r of x holds x.cols / dim vectors, all at position first_position + r of the table.
ScoredVectors prepare(const Matrix& x, const ModelSizes& sizes, const LayerNumerics& numerics,
                      const RopeTable& table, std::int64_t first_position, float amax_floor) {
  const std::int64_t dim = sizes.index_head_dim;
  const std::int64_t vectors_a_row = x.cols / dim;
  const std::int64_t count = x.rows * vectors_a_row;
  const bool quantised = numerics.index_quantisation != IndexQuantisation::none;
  ScoredVectors result;
  result.dim = dim;
  result.dtype = quantised ? DType::e4m3 : DType::f32;
  result.values = x.data;
  result.codes.resize(quantised ? x.data.size() : 0);
  result.scales.assign(size(count), 1.0f);
#pragma omp parallel for schedule(static)
  for (std::int64_t v = 0; v < count; ++v) {
    const std::span<float> vector(result.values.data() + v * dim, size(dim));
    apply_rope(vector.first(size(sizes.qk_rope_head_dim)), table,
               first_position + v / vectors_a_row, sizes.indexer_rope_pairing,
               numerics.rope_roundings);
    if (numerics.index_hadamard)
      hadamard_128(vector.first<size_t{kHadamardDim}>(), numerics.activations);
    if (!quantised) continue;
    const float amax = largest_magnitude(vector.data(), dim);
    const float scale = numerics.index_quantisation == IndexQuantisation::p2
                            ? p2_scale(amax, amax_floor)
                            : arb_scale(amax, amax_floor, Division::divide);
    quantise(vector.data(), dim, scale, Division::divide, result.codes.data() + v * dim);
    result.scales[size(v)] = scale;
  }
  return result;
}

// One page of all keys: the values, then, when quantised, the scales.
struct KeyPage {
  std::vector<std::byte> bytes;
  RowsView view;

  explicit KeyPage(const ScoredVectors& keys) {
    const std::int64_t count = std::ssize(keys.scales);
    const std::size_t value_bytes = size(count * keys.dim) * size_of(keys.dtype);
    bytes.resize(value_bytes + keys.scales.size() * sizeof(float));
    std::memcpy(bytes.data(), keys.data(), value_bytes);
    std::memcpy(bytes.data() + value_bytes, keys.scales.data(), keys.scales.size() * sizeof(float));
    view = flat_rows(bytes.data(), keys.dtype, count, keys.dim);
    view.page_stride = std::ssize(bytes);
    view.scale_offset = static_cast<std::int64_t>(value_bytes);
  }
};

Matrix scale_weights(const Matrix& raw, const ScoredVectors& q, const ModelSizes& sizes,
                     IndexWeightOrder order) {
  const auto heads_scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.index_n_heads)));
  const auto dim_scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(sizes.index_head_dim)));
  const bool heads_first = order == IndexWeightOrder::heads_scale_dim;
  Matrix w = raw;
  for (std::size_t i = 0; i < w.data.size(); ++i) {
    const float raw_weight = w.data[i];
    const float q_scale = q.scales[i];
    w.data[i] =
        round_to(DType::f32, heads_first ? ((raw_weight * heads_scale) * q_scale) * dim_scale
                                         : ((raw_weight * q_scale) * dim_scale) * heads_scale);
  }
  return w;
}

Matrix normed_keys(const ModelSizes& sizes, const LayerNumerics& numerics,
                   const LayerWeights& weights, const Matrix& hidden) {
  Matrix k = linear(hidden, weights.indexer_wk, numerics.activations);
  const Matrix weight = widen(weights.indexer_k_norm);
  const Matrix bias = widen(weights.indexer_k_norm_bias);
  for (std::int64_t s = 0; s < k.rows; ++s) {
    const std::span<float> row(k.row(s), size(sizes.index_head_dim));
    layer_norm(row, weight.data, bias.data, static_cast<float>(numerics.eps_knorm),
               numerics.activations, row);
  }
  return k;
}

Matrix last_rows(const Matrix& m, std::int64_t rows) {
  Matrix result(rows, m.cols);
  std::memcpy(result.data.data(), m.row(m.rows - rows), result.data.size() * sizeof(float));
  return result;
}

Matrix score(const ModelSizes& sizes, const LayerNumerics& numerics, const ScoredVectors& q,
             const ScoredVectors& k, const Matrix& weights) {
  const KeyPage page(k);
  std::vector<std::int32_t> key_end(size(weights.rows));
  const std::int64_t first = page.view.slots - weights.rows;
  for (std::int64_t r = 0; r < weights.rows; ++r)
    key_end[size(r)] = static_cast<std::int32_t>(first + r + 1);

  IndexScoresProblem problem;
  problem.tokens = weights.rows;
  problem.heads = sizes.index_n_heads;
  problem.dim = sizes.index_head_dim;
  problem.key_count = page.view.slots;
  problem.q = {.data = q.data(),
               .dtype = q.dtype,
               .token_stride = sizes.index_n_heads * sizes.index_head_dim,
               .head_stride = sizes.index_head_dim};
  problem.weights = weights.data.data();
  problem.keys = page.view;
  problem.key_end = key_end.data();
  Matrix scores;
  scores.rows = weights.rows;
  scores.cols = page.view.slots;
  scores.data = index_scores(problem, numerics.index_reduction);
  return scores;
}

}  // namespace

IndexerStages run_indexer(const ModelSizes& sizes, const LayerNumerics& numerics,
                          const LayerWeights& weights, const Matrix& hidden, const Matrix& q_resid,
                          const RopeTable& table) {
  const std::int64_t first = hidden.rows - q_resid.rows;
  IndexerStages stages;
  stages.index_q = linear(q_resid, weights.indexer_wq_b, numerics.activations);
  stages.index_k = normed_keys(sizes, numerics, weights, hidden);
  stages.index_weights_raw =
      linear(last_rows(hidden, q_resid.rows), weights.indexer_weights_proj, numerics.index_weights);
  const ScoredVectors q = prepare(stages.index_q, sizes, numerics, table, first,
                                  static_cast<float>(numerics.index_q_eps));
  const ScoredVectors k =
      prepare(stages.index_k, sizes, numerics, table, 0, static_cast<float>(numerics.index_k_eps));
  stages.index_weights =
      scale_weights(stages.index_weights_raw, q, sizes, numerics.index_weight_order);
  stages.index_scores = score(sizes, numerics, q, k, stages.index_weights);

  stages.topk_indices.resize(size(q_resid.rows * sizes.index_topk));
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t r = 0; r < q_resid.rows; ++r)
    top_k(stages.index_scores.row(r), 0, first + r + 1, sizes.index_topk,
          stages.topk_indices.data() + r * sizes.index_topk);
  return stages;
}

}  // namespace mlacheck
