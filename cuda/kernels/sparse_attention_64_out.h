#pragma once

#include "cuda/kernels/sparse_attention_64_shared.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// What a math warp of sparse_attention_64 accumulates: 64 heads (four tiles of 16) x 64 dims of
// out.
template <device::Element E>
class Out64 {
  using K = SparseAttention64;

 public:
  MLACHECK_DEVICE_FN Out64(const SparseAttentionArguments& arguments, K::Shared& shared,
                           unsigned warp)
      : a_(arguments), s_(shared), warp_(warp) {}

  MLACHECK_DEVICE_FN void clear() {
    MLACHECK_UNROLL
    for (int g = 0; g < 4; ++g) MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) out_[g][n].clear();
  }

  MLACHECK_DEVICE_FN void add(int g, const device::FragmentA& weights,
                              const device::FragmentB (&values)[8]) {
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) device::mma_m16n8k16<E>(out_[g][n], weights, values[n]);
  }

  MLACHECK_DEVICE_FN void rescale(int g, unsigned lane, K::Weights& weights) {
    const float low = device::load(device::shared(weights.rescale[g * 16 + lane / 4]));
    const float high = device::load(device::shared(weights.rescale[g * 16 + lane / 4 + 8]));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) out_[g][n][i] = device::multiply(out_[g][n][i], i < 2 ? low : high);
  }

  // Folds the chunk with those before it, and keeps the result, or writes it out.
  MLACHECK_DEVICE_FN void end_chunk(const Item& item, std::int32_t from) {
    device::wait(device::shared(s_.chunk_written), chunk_parity_);
    chunk_parity_ ^= 1;
    // Asked anew, or the compiler keeps the addresses below in registers through the loop over
    // tiles.
    const unsigned lane = device::lane_index();
    const bool first = from == item.begin, last = from + a_.chunk >= item.end;
    const std::int64_t keeper = a_.split ? item.number : device::block_index();
    auto* kept = reinterpret_cast<device::Floats4*>(a_.partial_out) +
                 (keeper * K::kMathWarps + warp_) * (4 * 8 * 32) + lane;
    MLACHECK_UNROLL
    for (int g = 0; g < 4; ++g) {
      if (!first) fold_kept(g, lane, kept);
      if (a_.split || !last) {
        MLACHECK_UNROLL
        for (int n = 0; n < 8; ++n) {
          device::Accumulator& c = out_[g][n];
          device::store(kept + (g * 8 + n) * 32, {{c[0], c[1], c[2], c[3]}});
        }
      } else {
        write(g, lane, item);
      }
    }
    device::arrive_warp(device::shared(s_.chunk_read));
  }

 private:
  MLACHECK_DEVICE_FN void fold_kept(int g, unsigned lane, const device::Floats4* kept) {
    const FoldWeights low = device::load(device::shared(s_.fold_weights[g * 16 + lane / 4]));
    const FoldWeights high = device::load(device::shared(s_.fold_weights[g * 16 + lane / 4 + 8]));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) {
      const device::Floats4 earlier = device::load(kept + (g * 8 + n) * 32);
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i)
        out_[g][n][i] = fold(i < 2 ? low : high, earlier.value[i], out_[g][n][i]);
    }
  }

  MLACHECK_DEVICE_FN void write(int g, unsigned lane, const Item& item) {
    const std::int32_t row = g * 16 + static_cast<std::int32_t>(lane / 4);
    if (a_.out_f32) {
      write_row<0, true>(g, row, lane, item);
      write_row<2, true>(g, row + 8, lane, item);
    } else {
      write_row<0, false>(g, row, lane, item);
      write_row<2, false>(g, row + 8, lane, item);
    }
  }

  template <int kFirst, bool kF32>
  MLACHECK_DEVICE_FN void write_row(int g, std::int32_t row, unsigned lane, const Item& item) {
    const std::int32_t head = static_cast<std::int32_t>(item.group) * K::kHeads + row;
    if (head >= a_.heads) return;
    const float factor = device::load(device::shared(s_.sum[row]));
    const std::int64_t at =
        out_at(a_, item.token, head, static_cast<std::int32_t>(warp_ * 64 + lane % 4 * 2));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n)
      write_out<E, kF32>(a_, at + n * 8, normalised(out_[g][n][kFirst], factor),
                         normalised(out_[g][n][kFirst + 1], factor));
  }

  const SparseAttentionArguments& a_;
  K::Shared& s_;
  unsigned warp_;
  unsigned chunk_parity_ = 0;
  device::Accumulator out_[4][8];
};

}  // namespace mlacheck::kernels
