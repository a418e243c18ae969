#include "reference/layer/indexer.h"

#include <cmath>
#include <span>

#include "reference/layer/index_operands.h"
#include "reference/layer/layer_norm.h"
#include "reference/layer/linear.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/size.h"
#include "reference/operators/top_k.h"

namespace mlacheck {
namespace {

using detail::size;

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
                   const LayerWeights& weights, Matrix k) {
  const Matrix weight = widen(weights.indexer_k_norm);
  const Matrix bias = widen(weights.indexer_k_norm_bias);
  for (std::int64_t s = 0; s < k.rows; ++s) {
    const std::span<float> row(k.row(s), size(sizes.index_head_dim));
    layer_norm(row, weight.data, bias.data, static_cast<float>(numerics.eps_knorm),
               numerics.activations, row);
  }
  return k;
}

}  // namespace

IndexerStages run_indexer(const ModelSizes& sizes, const LayerNumerics& numerics,
                          const LayerWeights& weights, const Matrix& hidden, const Matrix& q_resid,
                          const RopeTable& table) {
  const std::int64_t first = hidden.rows - q_resid.rows;
  IndexerStages stages;
  stages.index_q = linear(q_resid, weights.indexer_wq_b, numerics.activations);
  stages.index_k_proj = linear(hidden, weights.indexer_wk, numerics.activations);
  stages.index_k = normed_keys(sizes, numerics, weights, stages.index_k_proj);
  stages.index_weights_raw =
      linear(last_rows(hidden, q_resid.rows), weights.indexer_weights_proj, numerics.index_weights);
  const ScoredVectors q = scored_vectors(stages.index_q, sizes, numerics, table, first,
                                         static_cast<float>(numerics.index_q_eps));
  const ScoredVectors k = scored_vectors(stages.index_k, sizes, numerics, table, 0,
                                         static_cast<float>(numerics.index_k_eps));
  stages.index_weights =
      scale_weights(stages.index_weights_raw, q, sizes, numerics.index_weight_order);
  const IndexOperands operands(sizes, q, k, stages.index_weights);
  stages.index_scores = Matrix(q_resid.rows, hidden.rows);
  stages.index_scores.data = index_scores(operands.problem(), numerics.index_reduction);

  stages.topk_indices.resize(size(q_resid.rows * sizes.index_topk));
  detail::parallel_rows(q_resid.rows, [&](std::int64_t r) {
    top_k(stages.index_scores.row(r), 0, first + r + 1, sizes.index_topk,
          stages.topk_indices.data() + r * sizes.index_topk);
  });
  return stages;
}

}  // namespace mlacheck
