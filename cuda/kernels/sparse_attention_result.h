#pragma once

#include "cuda/device/matrix.h"
#include "cuda/kernels/online_softmax.h"

namespace mlacheck::kernels {

// What combine folds: the state of a head after chunk `item`, of groups of `group_heads`.
MLACHECK_DEVICE_FN void write_partial(const SparseAttentionArguments& a, std::uint32_t item,
                                      int group_heads, unsigned head, const HeadState& chunk) {
  const std::int64_t at = std::int64_t{item} * group_heads + head;
  device::store(a.partial_max + at, chunk.max);
  device::store(a.partial_sum + at, chunk.sum);
  device::store(a.partial_largest + at, chunk.largest);
}

// What a head's sums of weighted values are multiplied by: 1 / (l + 2^(sink - m)), or a negative
// number where there is no weight at all.
MLACHECK_DEVICE_FN float output_factor(const SparseAttentionArguments& a, std::int32_t head,
                                       const HeadState& state) {
  if (state.sum == 0.0f) return -1.0f;
  float sum = state.sum;
  if (a.attn_sink != nullptr) {
    const float sink = device::multiply(device::load(a.attn_sink + head), kLog2E);
    sum = device::add(sum, exp2_f32(device::add(sink, -state.max)));
  }
  return device::divide(1.0f, sum);
}

//   lse = m ln 2 + log2(l) ln 2, over the keys alone;  max_logit = largest ln 2
MLACHECK_DEVICE_FN void write_head(const SparseAttentionArguments& a, std::uint32_t token,
                                   std::int32_t head, const HeadState& state) {
  const std::int64_t at = std::int64_t{token} * a.heads + head;
  const float lse =
      device::fused_multiply_add(state.max, kLn2, device::multiply(log2_f32(state.sum), kLn2));
  device::store(a.lse + at, state.sum == 0.0f ? kMinusInfinity : lse);
  if (a.max_logit != nullptr)
    device::store(a.max_logit + at, device::fused_multiply_add(state.largest, kLn2, 0.0f));
}

// A sum of weighted values by output_factor. A sum of -0 gives +0, so that what leaves a sum's
// value unchanged (trailing absent entries) leaves the result's bits unchanged.
MLACHECK_DEVICE_FN float normalised(float sum, float factor) {
  return factor < 0.0f ? 0.0f : device::fused_multiply_add(sum, factor, 0.0f);
}

// Two neighbouring columns of out, from element `at` on; kF32 is a.out_f32.
template <device::Element E, bool kF32>
MLACHECK_DEVICE_FN void write_out(const SparseAttentionArguments& a, std::int64_t at, float first,
                                  float second) {
  if constexpr (kF32) {
    const device::Words2 words = {
        {__builtin_bit_cast(std::uint32_t, first), __builtin_bit_cast(std::uint32_t, second)}};
    device::store(reinterpret_cast<device::Words2*>(static_cast<float*>(a.out) + at), words);
  } else {
    device::store(reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(a.out) + at),
                  device::pack<E>(first, second));
  }
}

MLACHECK_DEVICE_FN std::int64_t out_at(const SparseAttentionArguments& a, std::uint32_t token,
                                       std::int32_t head, std::int32_t column) {
  return (std::int64_t{token} * a.heads + head) * kVDim + column;
}

// The same where few are written.
template <device::Element E>
MLACHECK_DEVICE_FN void write_out(const SparseAttentionArguments& a, std::uint32_t token,
                                  std::int32_t head, std::int32_t column, float first,
                                  float second) {
  const std::int64_t at = out_at(a, token, head, column);
  if (a.out_f32)
    write_out<E, true>(a, at, first, second);
  else
    write_out<E, false>(a, at, first, second);
}

}  // namespace mlacheck::kernels
