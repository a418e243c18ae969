#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/layer/attention_layer.h"
#include "reference/layer/layer_testing.h"
#include "reference/layer/rope_frequencies.h"

// The layer once more, for the tests alone: double, the expanded (MHA) form, one loop per formula,
// nothing shared with the library but the RoPE frequencies.
namespace mlacheck::testing {

struct DoubleMatrix {
  std::int64_t cols = 0;
  std::vector<double> data;
  double* row(std::int64_t r) { return data.data() + r * cols; }
  const double* row(std::int64_t r) const { return data.data() + r * cols; }
  std::int64_t rows() const { return std::ssize(data) / cols; }
};

inline DoubleMatrix to_double(const Matrix& m) {
  return {m.cols, std::vector<double>(m.data.begin(), m.data.end())};
}

inline DoubleMatrix naive_linear(const DoubleMatrix& x, const Weight& weight) {
  const std::vector<float> w = values_of(weight);
  DoubleMatrix y{weight.rows, {}};
  for (std::int64_t t = 0; t < x.rows(); ++t)
    for (std::int64_t o = 0; o < weight.rows; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < x.cols; ++i)
        sum += x.row(t)[i] * static_cast<double>(w[static_cast<std::size_t>(o * x.cols + i)]);
      y.data.push_back(sum);
    }
  return y;
}

// The first `cols` elements of each row, normalised; centred: LayerNorm.
inline DoubleMatrix naive_norm(const DoubleMatrix& x, std::int64_t cols, const Weight& weight,
                               const Weight& bias, double eps, bool centred) {
  const std::vector<float> w = values_of(weight);
  const std::vector<float> b =
      centred ? values_of(bias) : std::vector<float>(static_cast<std::size_t>(cols), 0.0f);
  const auto n = static_cast<double>(cols);
  DoubleMatrix y{cols, {}};
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    double mean = 0;
    for (std::int64_t i = 0; i < cols && centred; ++i) mean += x.row(t)[i] / n;
    double variance = 0;
    for (std::int64_t i = 0; i < cols; ++i) variance += std::pow(x.row(t)[i] - mean, 2) / n;
    for (std::int64_t i = 0; i < cols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      y.data.push_back((x.row(t)[i] - mean) / std::sqrt(variance + eps) *
                           static_cast<double>(w[at]) +
                       static_cast<double>(b[at]));
    }
  }
  return y;
}

inline void naive_rope(double* x, std::int64_t position, const std::vector<float>& f,
                       RopePairing pairing) {
  const std::int64_t pairs = std::ssize(f);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const bool interleaved = pairing == RopePairing::interleaved;
    double& a = x[interleaved ? 2 * i : i];
    double& b = x[interleaved ? 2 * i + 1 : i + pairs];
    const double angle =
        static_cast<double>(static_cast<float>(position) * f[static_cast<std::size_t>(i)]);
    const double rotated_a = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = rotated_a;
  }
}

inline double naive_dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

struct NaiveLayer {
  DoubleMatrix scores;       // [S, S], valid for s <= t
  DoubleMatrix attn_output;  // [S, heads * v]
  DoubleMatrix output;       // [S, hidden]
};

// All rows are queries. Attention runs on the given indices [S, topk].
inline NaiveLayer naive_layer(const ModelSizes& sizes, const LayerWeights& w,
                              const LayerInput& input, double eps_lora, double eps_knorm,
                              const std::vector<std::int32_t>& indices) {
  const std::int64_t rows = input.hidden.rows;
  const std::int64_t heads = sizes.num_attention_heads;
  const std::int64_t nope = sizes.qk_nope_head_dim;
  const std::int64_t rope = sizes.qk_rope_head_dim;
  const std::int64_t v = sizes.v_head_dim;
  const std::int64_t index_dim = sizes.index_head_dim;
  const DoubleMatrix x = to_double(input.hidden);
  const DoubleMatrix q_resid = naive_norm(naive_linear(x, w.q_a_proj), sizes.q_lora_rank,
                                          w.q_a_layernorm, {}, eps_lora, false);
  DoubleMatrix q = naive_linear(q_resid, w.q_b_proj);
  DoubleMatrix kv_a = naive_linear(x, w.kv_a_proj_with_mqa);
  const DoubleMatrix kv =
      naive_norm(kv_a, sizes.kv_lora_rank, w.kv_a_layernorm, {}, eps_lora, false);
  const DoubleMatrix expanded = naive_linear(kv, w.kv_b_proj);
  DoubleMatrix index_q = naive_linear(q_resid, w.indexer_wq_b);
  DoubleMatrix index_k = naive_norm(naive_linear(x, w.indexer_wk), index_dim, w.indexer_k_norm,
                                    w.indexer_k_norm_bias, eps_knorm, true);
  const DoubleMatrix weights = naive_linear(x, w.indexer_weights_proj);
  const std::vector<float> f = rope_frequencies(sizes.rope, rope);
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::int64_t position = input.positions[static_cast<std::size_t>(t)];
    naive_rope(kv_a.row(t) + sizes.kv_lora_rank, position, f, sizes.rope_pairing);
    naive_rope(index_k.row(t), position, f, sizes.indexer_rope_pairing);
    for (std::int64_t h = 0; h < heads; ++h)
      naive_rope(q.row(t) + h * (nope + rope) + nope, position, f, sizes.rope_pairing);
    for (std::int64_t h = 0; h < sizes.index_n_heads; ++h)
      naive_rope(index_q.row(t) + h * index_dim, position, f, sizes.indexer_rope_pairing);
  }

  NaiveLayer result;
  result.scores.cols = rows;
  const double constant = 1 / std::sqrt(static_cast<double>(sizes.index_n_heads * index_dim));
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t s = 0; s < rows; ++s) {
      double score = 0;
      for (std::int64_t h = 0; h < sizes.index_n_heads; ++h)
        score +=
            weights.row(t)[h] * constant *
            std::max(0.0, naive_dot(index_q.row(t) + h * index_dim, index_k.row(s), index_dim));
      result.scores.data.push_back(score);
    }

  const std::int64_t topk = std::ssize(indices) / rows;
  result.attn_output.cols = heads * v;
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> out(static_cast<std::size_t>(v), 0.0);
      double sum = 0;
      for (std::int64_t j = 0; j < topk; ++j) {
        const std::int32_t s = indices[static_cast<std::size_t>(t * topk + j)];
        if (s < 0) continue;
        const double* key = expanded.row(s) + h * (nope + v);
        const double* query = q.row(t) + h * (nope + rope);
        const double logit = naive_dot(query, key, nope) +
                             naive_dot(query + nope, kv_a.row(s) + sizes.kv_lora_rank, rope);
        const double weight = std::exp(logit * static_cast<double>(softmax_scale(sizes)));
        sum += weight;
        for (std::int64_t i = 0; i < v; ++i)
          out[static_cast<std::size_t>(i)] += weight * key[nope + i];
      }
      for (const double element : out) result.attn_output.data.push_back(element / sum);
    }
  result.output = naive_linear(result.attn_output, w.o_proj);
  return result;
}

inline double relative_error(const Matrix& got, const DoubleMatrix& exact) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.data.size(); ++i) {
    error += std::pow(static_cast<double>(got.data[i]) - exact.data[i], 2);
    norm += std::pow(exact.data[i], 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace mlacheck::testing
