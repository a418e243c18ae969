#include "reference/layer/index_operands.h"

#include <cstring>
#include <span>

#include "reference/formats/block_scale.h"
#include "reference/layer/hadamard.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/size.h"

namespace mlacheck {
namespace {

using detail::size;

}  // namespace

ScoredVectors scored_vectors(const Matrix& x, const ModelSizes& sizes,
                             const LayerNumerics& numerics, const RopeTable& table,
                             std::int64_t first_position, float amax_floor) {
  const std::int64_t dim = sizes.index_head_dim;
  const std::int64_t vectors_a_row = x.cols / dim;
  const std::int64_t count = x.rows * vectors_a_row;
  const bool quantised = numerics.index_quantisation != IndexQuantisation::none;
  ScoredVectors result;
  result.dim = dim;
  result.dtype = quantised ? DType::e4m3 : DType::f32;
  result.values = x.data;
  result.codes.resize(quantised ? x.data.size() : 0);
  result.scales.assign(size(count), 1.0f);
  detail::parallel_rows(count, [&](std::int64_t v) {
    const std::span<float> vector(result.values.data() + v * dim, size(dim));
    apply_rope(vector.first(size(sizes.qk_rope_head_dim)), table,
               first_position + v / vectors_a_row, sizes.indexer_rope_pairing,
               numerics.rope_roundings);
    if (numerics.index_hadamard)
      hadamard_128(vector.first<size_t{kHadamardDim}>(), numerics.activations);
    if (!quantised) return;
    const float amax = largest_magnitude(vector.data(), dim);
    const float scale = numerics.index_quantisation == IndexQuantisation::p2
                            ? p2_scale(amax, amax_floor)
                            : arb_scale(amax, amax_floor, Division::divide);
    quantise(vector.data(), dim, scale, Division::divide, result.codes.data() + v * dim);
    result.scales[size(v)] = scale;
  });
  return result;
}

IndexOperands::IndexOperands(const ModelSizes& sizes, const ScoredVectors& q,
                             const ScoredVectors& k, const Matrix& weights) {
  const std::int64_t keys = std::ssize(k.scales);
  const std::size_t value_bytes = size(keys * k.dim) * size_of(k.dtype);
  page_.resize(value_bytes + k.scales.size() * sizeof(float));
  if (keys != 0) {
    std::memcpy(page_.data(), k.data(), value_bytes);
    std::memcpy(page_.data() + value_bytes, k.scales.data(), k.scales.size() * sizeof(float));
  }
  for (std::int64_t r = 0; r < weights.rows; ++r)
    key_end_.push_back(static_cast<std::int32_t>(keys - weights.rows + r + 1));

  problem_.tokens = weights.rows;
  problem_.heads = sizes.index_n_heads;
  problem_.dim = sizes.index_head_dim;
  problem_.key_count = keys;
  problem_.q = {.data = q.data(),
                .dtype = q.dtype,
                .token_stride = sizes.index_n_heads * sizes.index_head_dim,
                .head_stride = sizes.index_head_dim};
  problem_.weights = weights.data.data();
  problem_.keys = flat_rows(page_.data(), k.dtype, keys, k.dim);
  problem_.keys.page_stride = std::ssize(page_);
  problem_.keys.scale_offset = static_cast<std::int64_t>(value_bytes);
  problem_.key_end = key_end_.data();
}

}  // namespace mlacheck
