#pragma once

#include <cstdint>
#include <vector>

#include "reference/operators/views.h"

namespace mlacheck {

// Sparse MLA attention. For token t and head h, over the present entries J(t):
//
//   J(t) = { j < topk_length[t] : 0 <= indices[t, j] < kv.slots }   (a multiset: duplicates count)
//   s_j  = sm_scale * dot(q[t, h, :], kv[indices[t, j], 0 : qk_dim])
//   m    = max_j s_j
//   lse  = m + ln sum_j exp(s_j - m)
//   out  = sum_j exp(s_j - lse) * kv[indices[t, j], 0 : v_dim] / (1 + exp(attn_sink[h] - lse))
//
// An empty row gives out 0, lse -inf, max_logit -inf. The sink scales out, never lse.
struct SparseAttentionProblem {
  std::int64_t tokens = 0;  // T >= 0
  std::int64_t heads = 1;   // H >= 1
  std::int64_t topk = 0;    // K >= 0
  std::int64_t qk_dim = 576;
  std::int64_t v_dim = 512;                   // the first v_dim elements of a KV row are its value
  QueryView q;                                // [T, H, qk_dim]: f32, f16, bf16
  RowsView kv;                                // [N, qk_dim]: f32, f16, bf16
  const std::int32_t* indices = nullptr;      // [T, K], rows index_stride apart
  std::int64_t index_stride = 0;              // elements
  const std::int32_t* topk_length = nullptr;  // [T] in [0, K], or null: K everywhere
  const float* attn_sink = nullptr;  // [H] raw logits (natural units; +-inf allowed), or null
  float sm_scale = 0;                // always explicit
  DType out_dtype = DType::bf16;     // f32, f16, bf16
};

// Rounding points of the reference that a profile may ask for; the defaults are fp32 throughout.
struct SparseAttentionNumerics {
  // Softmax weights are rounded to this (f32, f16, bf16) before the value product; their sum is of
  // the unrounded ones.
  DType weight_dtype = DType::f32;
};

struct SparseAttentionResult {
  std::vector<float> out;        // [T, H, v_dim], values already rounded to out_dtype
  std::vector<float> lse;        // [T, H] natural log
  std::vector<float> max_logit;  // [T, H] scaled, natural units
};

// Roundings, in order; the n present entries count from 0 here, so an absent one influences no bit
// wherever it stands:
//   s_j     ordered dot over qk_dim, then * sm_scale
//   m       max s_j + 0 (so never -0)
//   w_j     exp2_f32((s_j - m) * log2e): difference and product round
//   l       ordered sum of w_j
//   a_c     ordered sum over j of round(w_j, weight_dtype) * value_j[c]
//   lse     m + log2_f32(l) * ln2: product and sum round
//   out_c   a_c / l, then * 1 / (1 + exp2_f32((attn_sink - lse) * log2e)) if there is a sink
//           (every step rounds), then to out_dtype
// Specials, per (t, h); NaN is canonical:
//   a NaN score           out, lse and max_logit are NaN
//   else a +inf score     max_logit +inf; out and lse NaN (inf - inf)
//   else all scores -inf  no weight: as an empty row
//   else a -inf score     weight 0; an Inf in that entry's value makes its column NaN (0 * Inf)
//   attn_sink +inf        a factor of 0;  -inf: a factor of 1
// Throws std::invalid_argument naming the field when sizes, strides or dtypes contradict each
// other, or a topk_length is outside [0, K].
SparseAttentionResult sparse_attention(const SparseAttentionProblem& problem,
                                       const SparseAttentionNumerics& numerics = {});

// The checks of sparse_attention, for other producers: all; or those of a producer of single rows.
void require_valid(const SparseAttentionProblem& problem);
void require_valid_sizes(const SparseAttentionProblem& problem);
void require_valid_length(const SparseAttentionProblem& problem, std::int64_t t);

// The present slots of row t, in order of j: what every producer attends to. Shared with the
// oracle.
std::vector<std::int32_t> present_slots(const SparseAttentionProblem& problem, std::int64_t t);

}  // namespace mlacheck
