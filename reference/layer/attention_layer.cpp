#include "reference/layer/attention_layer.h"

#include <algorithm>
#include <cstddef>

#include "reference/layer/absorption.h"
#include "reference/layer/indexer.h"
#include "reference/layer/linear.h"
#include "reference/layer/rms_norm.h"
#include "reference/layer/rope.h"
#include "reference/layer/score_limit.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/operators/size.h"
#include "reference/operators/sparse_attention.h"

namespace mlacheck {
namespace {

using detail::require;
using detail::size;

void require_indices(const char* field, const IndexRows& indices, std::int64_t first,
                     std::int64_t queries) {
  require(indices.rows == queries, "{}: expected {} rows, got {}", field, queries, indices.rows);
  require(indices.width >= 0, "{}: expected a width >= 0, got {}", field, indices.width);
  require(indices.data != nullptr || indices.rows * indices.width == 0,
          "{}: expected an address, got null", field);
  for (std::int64_t r = 0; r < queries; ++r)
    for (std::int64_t j = 0; j < indices.width; ++j) {
      const std::int32_t index = indices.data[r * indices.width + j];
      require(index >= -1 && index <= first + r, "{}[{}, {}]: expected -1 .. {}, got {}", field, r,
              j, first + r, index);
    }
}

void require_input(const ModelSizes& sizes, const LayerNumerics& numerics,
                   const LayerInput& input) {
  const Matrix& hidden = input.hidden;
  require(hidden.cols == sizes.hidden_size, "hidden: expected hidden_size {} columns, got {}",
          sizes.hidden_size, hidden.cols);
  require(std::ssize(input.positions) == hidden.rows, "positions: expected {}, got {}", hidden.rows,
          input.positions.size());
  require(input.first_query_row >= 0 && input.first_query_row <= hidden.rows,
          "first_query_row: expected 0 .. {}, got {}", hidden.rows, input.first_query_row);
  for (std::size_t s = 0; s < input.positions.size(); ++s) {
    const std::int64_t position = input.positions[s];
    require(position >= (s == 0 ? 0 : input.positions[s - 1] + 1) && position < INT32_MAX,
            "positions[{}]: expected ascending in [0, 2^31 - 1), got {}", s, position);
  }
  if (numerics.activations == DType::bf16)
    for (std::size_t i = 0; i < hidden.data.size(); ++i) {
      const float x = hidden.data[i];
      require(x != x || round_to(DType::bf16, x) == x,
              "hidden[{}, {}]: expected a bf16 value, got {}",
              static_cast<std::int64_t>(i) / hidden.cols,
              static_cast<std::int64_t>(i) % hidden.cols, x);
    }
  const std::int64_t queries = hidden.rows - input.first_query_row;
  if (!input.shared_indices) require_scores(queries, hidden.rows, sizes.index_topk);
  if (input.shared_indices)
    require_indices("shared_indices", *input.shared_indices, input.first_query_row, queries);
  if (input.forced_indices)
    require_indices("forced_indices", *input.forced_indices, input.first_query_row, queries);
}

Matrix normed(const LayerNumerics& numerics, const Matrix& x, std::int64_t cols, const Weight& w) {
  const Matrix weight = widen(w);
  Matrix y(x.rows, cols);
  detail::parallel_rows(x.rows, [&](std::int64_t r) {
    rms_norm({x.row(r), size(cols)}, weight.data, static_cast<float>(numerics.eps_lora),
             numerics.rms_norm_roundings, {y.row(r), size(cols)});
  });
  return y;
}

// RoPE on the last qk_rope_head_dim of every `head_dim` elements of x; row r is at first_position +
// r of the table.
Matrix rotated(const ModelSizes& sizes, const LayerNumerics& numerics, const Matrix& x,
               std::int64_t head_dim, const RopeTable& table, std::int64_t first_position) {
  const std::int64_t rope = sizes.qk_rope_head_dim;
  const std::int64_t heads = x.cols / head_dim;
  Matrix y(x.rows, heads * rope);
  detail::parallel_rows(x.rows, [&](std::int64_t r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* pe = y.row(r) + h * rope;
      std::copy_n(x.row(r) + (h + 1) * head_dim - rope, rope, pe);
      apply_rope({pe, size(rope)}, table, first_position + r, sizes.rope_pairing,
                 numerics.rope_roundings);
    }
  });
  return y;
}

void attend(const ModelSizes& sizes, const LayerNumerics& numerics, const IndexRows& indices,
            LayerStages& stages) {
  const AttentionOperands operands(sizes, numerics, stages.q_latent, stages.q_pe, stages.kv,
                                   stages.k_pe, indices);
  SparseAttentionResult result =
      sparse_attention(operands.problem(), {.weight_dtype = numerics.softmax_weights});

  stages.attn_latent.rows = stages.lse.rows = stages.q_latent.rows;
  stages.attn_latent.cols = sizes.num_attention_heads * sizes.kv_lora_rank;
  stages.attn_latent.data = std::move(result.out);
  stages.lse.cols = sizes.num_attention_heads;
  stages.lse.data = std::move(result.lse);
}

void select(const ModelSizes& sizes, const LayerNumerics& numerics, const LayerWeights& weights,
            const LayerInput& input, const RopeTable& table, LayerStages& stages) {
  if (input.shared_indices) {
    const IndexRows& shared = *input.shared_indices;
    stages.topk = shared.width;
    stages.topk_indices.assign(shared.data, shared.data + shared.rows * shared.width);
    return;
  }
  static_cast<IndexerStages&>(stages) =
      run_indexer(sizes, numerics, weights, input.hidden, stages.q_resid, table);
  stages.topk = sizes.index_topk;
}

}  // namespace

LayerStages attention_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                            const LayerWeights& weights, const LayerInput& input) {
  validate(sizes);
  validate(numerics, sizes);
  validate(weights, sizes, !input.shared_indices);
  require_input(sizes, numerics, input);
  const DType dtype = numerics.activations;
  const std::int64_t first = input.first_query_row;
  const RopeTable table =
      rope_table(sizes.rope, sizes.qk_rope_head_dim, input.positions, numerics.rope_table);

  LayerStages stages;
  stages.q_a = linear(last_rows(input.hidden, input.hidden.rows - first), weights.q_a_proj, dtype);
  stages.q_resid = normed(numerics, stages.q_a, sizes.q_lora_rank, weights.q_a_layernorm);
  stages.kv_a = linear(input.hidden, weights.kv_a_proj_with_mqa, dtype);
  stages.kv = normed(numerics, stages.kv_a, sizes.kv_lora_rank, weights.kv_a_layernorm);
  stages.k_pe = rotated(sizes, numerics, stages.kv_a, sizes.latent_head_dim(), table, 0);
  stages.q = linear(stages.q_resid, weights.q_b_proj, dtype);
  stages.q_latent = absorb_queries(stages.q, weights.kv_b_proj, sizes, dtype);
  stages.q_pe = rotated(sizes, numerics, stages.q, sizes.qk_head_dim(), table, first);
  select(sizes, numerics, weights, input, table, stages);

  const IndexRows selected{stages.topk_indices.data(), stages.q.rows, stages.topk};
  attend(sizes, numerics, input.forced_indices.value_or(selected), stages);
  stages.attn_output = expand_values(stages.attn_latent, weights.kv_b_proj, sizes, dtype);
  stages.output = linear(stages.attn_output, weights.o_proj, dtype);
  return stages;
}

std::vector<StageView> views(const LayerStages& s) {
  std::vector<StageView> result;
  const auto add = [&](std::string_view name, const Matrix& m) {
    if (m.cols != 0) result.push_back({name, m.rows, m.cols, m.data, {}});
  };
  add("q_a", s.q_a);
  add("q_resid", s.q_resid);
  add("kv_a", s.kv_a);
  add("kv", s.kv);
  add("k_pe", s.k_pe);
  add("q", s.q);
  add("q_latent", s.q_latent);
  add("q_pe", s.q_pe);
  add("index_q", s.index_q);
  add("index_k_proj", s.index_k_proj);
  add("index_k", s.index_k);
  add("index_weights_raw", s.index_weights_raw);
  add("index_weights", s.index_weights);
  add("index_scores", s.index_scores);
  result.push_back({"topk_indices", s.q.rows, s.topk, {}, s.topk_indices});
  add("attn_latent", s.attn_latent);
  add("lse", s.lse);
  add("attn_output", s.attn_output);
  add("output", s.output);
  return result;
}

}  // namespace mlacheck
