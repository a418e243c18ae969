#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reference/layer/attention_operands.h"
#include "reference/layer/indexer.h"
#include "reference/layer/layer_weights.h"
#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"
#include "reference/layer/numerics.h"

namespace mlacheck {

// One request.
struct LayerInput {
  Matrix hidden;                        // [S, hidden_size], after input_layernorm
  std::vector<std::int64_t> positions;  // [S] absolute, strictly ascending, below 2^31
  std::int64_t first_query_row = 0;     // queries are rows >= this; all S rows are keys
  // Makes this a shared layer: the topk_indices of the nearest earlier full one, for the same
  // queries.
  std::optional<IndexRows> shared_indices;
  // Attention runs on these instead of the selected ones, which are still recorded: judges
  // attention alone.
  std::optional<IndexRows> forced_indices;
};

// Every intermediate of one sparse MLA attention layer in the absorbed form, for
// T = S - first_query_row query rows, H heads, c = kv_lora_rank, r = qk_rope_head_dim:
//
//   q_resid     = RMSNorm(q_a)
//   [kv | k_pe] = [RMSNorm(kv_a[: c]) | RoPE(kv_a[c :])]
//   q[h]        = [q_nope | q_rope]
//   Q[h]        = [W_UK[h]^T q_nope | RoPE(q_rope)]
//   O[h]        = sparse_attention(Q[h], store([kv | k_pe]), indices, softmax_scale)
//   output      = o_proj [W_UV[h] O[h]]_h
// The indexer's are empty in a shared layer, but for topk_indices, which are as given.
struct LayerStages : IndexerStages {
  Matrix q_a;       // [T, q_lora_rank]
  Matrix q_resid;   // [T, q_lora_rank]
  Matrix kv_a;      // [S, c + r]
  Matrix kv;        // [S, c]
  Matrix k_pe;      // [S, r]
  Matrix q;         // [T, H * qk_head_dim]
  Matrix q_latent;  // [T, H * c]
  Matrix q_pe;      // [T, H * r]
  std::int64_t topk = 0;
  Matrix attn_latent;  // [T, H * c]
  Matrix lse;          // [T, H] natural log
  Matrix attn_output;  // [T, H * v_head_dim]
  Matrix output;       // [T, hidden_size]
};

// Runs the layer. Causal: row t sees rows <= t, whatever indices say; a forced or shared index
// beyond its row is an error. The same bits for any number of threads; a run from a later
// first_query_row gives the bits of the full one. Throws std::invalid_argument naming the field,
// key or tensor. In bf16 numerics hidden must hold bf16 values.
LayerStages attention_layer(const ModelSizes& sizes, const LayerNumerics& numerics,
                            const LayerWeights& weights, const LayerInput& input);

// One recorded stage; values or, for topk_indices, indices.
struct StageView {
  std::string_view name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const float> values;
  std::span<const std::int32_t> indices;
};

// The stages that the run recorded, in order of computation, named as in LayerStages.
std::vector<StageView> views(const LayerStages& stages);

}  // namespace mlacheck
