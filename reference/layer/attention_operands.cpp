#include "reference/layer/attention_operands.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace mlacheck {
namespace {

// Row by row and head by head [a | b], `heads` heads a row.
Matrix joined(const Matrix& a, const Matrix& b, std::int64_t heads) {
  Matrix y(a.rows, a.cols + b.cols);
  const std::int64_t a_dim = a.cols / heads;
  const std::int64_t b_dim = b.cols / heads;
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t h = 0; h < heads; ++h) {
      float* head = y.row(r) + h * (a_dim + b_dim);
      std::copy_n(a.row(r) + h * a_dim, a_dim, head);
      std::copy_n(b.row(r) + h * b_dim, b_dim, head + a_dim);
    }
  return y;
}

}  // namespace

Matrix stored_kv(const LayerNumerics& numerics, const Matrix& kv, const Matrix& k_pe) {
  Matrix rows = joined(kv, k_pe, 1);
  if (numerics.kv_storage == KvStorage::plain) return rows;
  const std::int64_t page = std::max<std::int64_t>(rows.rows, 1);
  const PageLayout layout{
      .slots = rows.rows, .page_size = page, .page_stride = page * kv_record_656::kBytes};
  std::vector<std::byte> cache(static_cast<std::size_t>(rows.rows * kv_record_656::kBytes));
  std::vector<std::int32_t> slots(static_cast<std::size_t>(rows.rows));
  std::iota(slots.begin(), slots.end(), 0);
  kv_record_656::write_cache(cache.data(), layout, slots, rows.data, numerics.kv_writer);
  kv_record_656::read_cache(cache.data(), layout, slots, numerics.kv_reader, rows.data);
  return rows;
}

AttentionOperands::AttentionOperands(const ModelSizes& sizes, const LayerNumerics& numerics,
                                     const Matrix& q_latent, const Matrix& q_pe, const Matrix& kv,
                                     const Matrix& k_pe, const IndexRows& indices)
    : q_(joined(q_latent, q_pe, sizes.num_attention_heads)), kv_(stored_kv(numerics, kv, k_pe)) {
  problem_.tokens = q_.rows;
  problem_.heads = sizes.num_attention_heads;
  problem_.topk = indices.width;
  problem_.qk_dim = sizes.latent_head_dim();
  problem_.v_dim = sizes.kv_lora_rank;
  problem_.q = {.data = q_.data.data(),
                .dtype = DType::f32,
                .token_stride = q_.cols,
                .head_stride = sizes.latent_head_dim()};
  problem_.kv = flat_rows(kv_.data.data(), DType::f32, kv_.rows, kv_.cols);
  problem_.indices = indices.data;
  problem_.index_stride = indices.width;
  problem_.sm_scale = softmax_scale(sizes);
  problem_.out_dtype = numerics.activations;
}

}  // namespace mlacheck
