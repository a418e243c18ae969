#include "reference/layer/absorption.h"

#include <vector>

#include "reference/layer/linear.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/operators/size.h"

namespace mlacheck {
namespace {

using detail::require;
using detail::size;

void require_kv_b(const Weight& w, const ModelSizes& s) {
  const std::int64_t rows = s.num_attention_heads * (s.qk_nope_head_dim + s.v_head_dim);
  require(w.rows == rows && w.cols == s.kv_lora_rank,
          "kv_b_proj: expected shape [{}, {}], got [{}, {}]", rows, s.kv_lora_rank, w.rows, w.cols);
}

}  // namespace

Matrix absorb_queries(const Matrix& q, const Weight& kv_b_proj, const ModelSizes& s, DType dtype) {
  require_kv_b(kv_b_proj, s);
  require(q.cols == s.num_attention_heads * s.qk_head_dim(),
          "absorb_queries: expected {} columns, got {}", s.num_attention_heads * s.qk_head_dim(),
          q.cols);
  const std::int64_t nope = s.qk_nope_head_dim;
  const std::int64_t rank = s.kv_lora_rank;
  Matrix q_latent(q.rows, s.num_attention_heads * rank);
  if (q.rows == 0) return q_latent;
  struct Buffers {
    std::vector<float> w_uk, transposed;
  };
  const auto buffers = [&] {
    return Buffers{std::vector<float>(size(nope * rank)), std::vector<float>(size(rank * nope))};
  };
  detail::parallel_rows(s.num_attention_heads, buffers, [&](std::int64_t h, Buffers& mine) {
    auto& [w_uk, transposed] = mine;
    widen_rows(kv_b_proj, h * (nope + s.v_head_dim), nope, w_uk.data());
    for (std::int64_t j = 0; j < nope; ++j)
      for (std::int64_t c = 0; c < rank; ++c)
        transposed[size(c * nope + j)] = w_uk[size(j * rank + c)];
    rounded_dot_block({.x = q.data.data() + h * s.qk_head_dim(),
                       .x_stride = q.cols,
                       .tokens = q.rows,
                       .w = transposed.data(),
                       .outputs = rank,
                       .n = nope,
                       .y = q_latent.data.data() + h * rank,
                       .y_stride = q_latent.cols},
                      dtype);
  });
  return q_latent;
}

Matrix expand_values(const Matrix& latent, const Weight& kv_b_proj, const ModelSizes& s,
                     DType dtype) {
  require_kv_b(kv_b_proj, s);
  require(latent.cols == s.num_attention_heads * s.kv_lora_rank,
          "expand_values: expected {} columns, got {}", s.num_attention_heads * s.kv_lora_rank,
          latent.cols);
  const std::int64_t rank = s.kv_lora_rank;
  Matrix out(latent.rows, s.num_attention_heads * s.v_head_dim);
  if (latent.rows == 0) return out;
  const auto buffer = [&] { return std::vector<float>(size(s.v_head_dim * rank)); };
  detail::parallel_rows(
      s.num_attention_heads, buffer, [&](std::int64_t h, std::vector<float>& w_uv) {
        widen_rows(kv_b_proj, h * (s.qk_nope_head_dim + s.v_head_dim) + s.qk_nope_head_dim,
                   s.v_head_dim, w_uv.data());
        rounded_dot_block({.x = latent.data.data() + h * rank,
                           .x_stride = latent.cols,
                           .tokens = latent.rows,
                           .w = w_uv.data(),
                           .outputs = s.v_head_dim,
                           .n = rank,
                           .y = out.data.data() + h * s.v_head_dim,
                           .y_stride = out.cols},
                          dtype);
      });
  return out;
}

}  // namespace mlacheck
