#pragma once

#include "reference/formats/dtype.h"
#include "reference/layer/layer_weights.h"
#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"

namespace mlacheck {

// kv_b_proj [heads * (nope + v), kv_lora_rank] holds, per head h, W_UK[h] [nope, kv_lora_rank] and
// then W_UV[h] [v, kv_lora_rank]. These move it from the keys and values to the query and the
// output:
//
//   (W_UK kv) . q_nope    = kv . (W_UK^T q_nope)
//   sum_s p_s (W_UV kv_s) = W_UV (sum_s p_s kv_s)

// q_latent[t, h, c] = sum_j q[t, h, j] * W_UK[h][j, c], j < nope: ordered dot, one rounding to
// dtype. q [T, heads * qk_head_dim] (nope first in each head); result [T, heads * kv_lora_rank].
Matrix absorb_queries(const Matrix& q, const Weight& kv_b_proj, const ModelSizes& sizes,
                      DType dtype);

// out[t, h, i] = sum_c latent[t, h, c] * W_UV[h][i, c]: ordered dot, one rounding to dtype.
// latent [T, heads * kv_lora_rank]; result [T, heads * v_head_dim].
Matrix expand_values(const Matrix& latent, const Weight& kv_b_proj, const ModelSizes& sizes,
                     DType dtype);

}  // namespace mlacheck
