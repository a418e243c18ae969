#pragma once

#include <cstdint>
#include <vector>

#include "reference/layer/layer_weights.h"
#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"
#include "reference/layer/numerics.h"
#include "reference/layer/rope.h"

namespace mlacheck {

// The DSA lightning indexer, for query rows t >= first and keys s of the same request:
//
//   q[t, h] = P(wq_b q_resid[t])_h
//   k[s]    = P(LayerNorm(wk x[s]))
//   P       = RoPE on the first qk_rope_head_dim elements, the optional Hadamard transform,
//             the optional quantisation to e4m3 with one scale (sq, sk) a vector
//   w[t, h] = (weights_proj x[t])_h * Hi^-0.5 * dim^-0.5 * sq[t, h]   in the numerics' order
//   I[t, s] = sk[s] * sum_h w[t, h] * max(0, q[t, h] . k[s])          s <= t, else -inf
//   indices = the min(index_topk, t + 1) largest of row t, ascending, then -1;
//             ties: the lower index
struct IndexerStages {
  Matrix index_q;                          // [rows, Hi * dim] wq_b, before RoPE
  Matrix index_k_proj;                     // [S, dim] wk
  Matrix index_k;                          // [S, dim] after k_norm, before RoPE
  Matrix index_weights_raw;                // [rows, Hi] weights_proj
  Matrix index_weights;                    // [rows, Hi] w
  Matrix index_scores;                     // [rows, S]
  std::vector<std::int32_t> topk_indices;  // [rows, index_topk]
};

// hidden [S, hidden_size]; q_resid [S - first, q_lora_rank]; table has a row for each of the S
// positions. Row t depends on rows <= t alone.
IndexerStages run_indexer(const ModelSizes& sizes, const LayerNumerics& numerics,
                          const LayerWeights& weights, const Matrix& hidden, const Matrix& q_resid,
                          const RopeTable& table);

}  // namespace mlacheck
