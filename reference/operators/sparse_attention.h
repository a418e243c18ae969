#pragma once

#include <cstdint>
#include <vector>

#include "reference/operators/views.h"

namespace mlacheck {

// Sparse MLA attention (spec: DESIGN section 2). For token t and head h, over the present entries
//   J(t) = { j < min(topk, topk_length[t]) : 0 <= indices[t, j] < kv.slots }     (a multiset:
//   duplicates count) s_j  = sm_scale * dot(q[t, h, :], kv[indices[t, j], 0 : qk_dim]) m    = max_j
//   s_j ;  lse = m + ln sum_j exp(s_j - m) out  = sum_j exp(s_j - lse) * kv[indices[t, j], 0 :
//   v_dim]  *  1 / (1 + exp(attn_sink[h] - lse))
// An empty row gives out 0, lse -inf, max_logit -inf. The sink scales out, never lse.
struct SparseAttentionProblem {
  std::int64_t tokens = 0;  // T >= 0
  std::int64_t heads = 1;   // H >= 1
  std::int64_t topk = 0;    // K >= 0
  std::int64_t qk_dim = 576;
  std::int64_t v_dim = 512;                   // the first v_dim elements of a KV row are its value
  QueryView q;                                // [T, H, qk_dim]
  RowsView kv;                                // [N, qk_dim]
  const std::int32_t* indices = nullptr;      // [T, K], rows index_stride apart
  std::int64_t index_stride = 0;              // elements
  const std::int32_t* topk_length = nullptr;  // [T], or null: K everywhere
  const float* attn_sink = nullptr;  // [H] raw logits (natural units; +-inf allowed), or null
  float sm_scale = 0;                // always explicit
  DType out_dtype = DType::bf16;     // f32, f16, bf16
};

// Rounding points of the reference that a profile may ask for; the defaults are fp32 throughout.
struct SparseAttentionNumerics {
  DType weight_dtype = DType::f32;  // softmax weights rounded to this before the value product; the
                                    // sum stays unrounded
};

struct SparseAttentionResult {
  std::vector<float> out;        // [T, H, v_dim], values already rounded to out_dtype
  std::vector<float> lse;        // [T, H] natural log
  std::vector<float> max_logit;  // [T, H] scaled, natural units
};

// Throws std::invalid_argument naming the field when sizes, strides or dtypes contradict each
// other.
SparseAttentionResult sparse_attention(const SparseAttentionProblem& problem,
                                       const SparseAttentionNumerics& numerics = {});

// The present slots of row t, in order of j: what every producer attends to. Shared with the
// oracle.
std::vector<std::int32_t> present_slots(const SparseAttentionProblem& problem, std::int64_t t);

}  // namespace mlacheck
