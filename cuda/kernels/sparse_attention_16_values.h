#pragma once

#include "cuda/kernels/sparse_attention_16_shared.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// The value role of sparse_attention_16: warp w multiplies the 128 dims from 128 w for all 16
// heads.
template <device::Element E>
class Values16 {
  using K = SparseAttention16;
  static constexpr int kTiles = kVDim / K::kValueWarps / 8;  // of 8 dims
  static constexpr int kPart = 8;  // tiles folded at a time: registers for what is loaded are few

 public:
  MLACHECK_DEVICE_FN Values16(const SparseAttentionArguments& arguments, K::Shared& shared,
                              unsigned warp)
      : a_(arguments), s_(shared), warp_(warp), lane_(device::lane_index()) {}

  MLACHECK_DEVICE_FN void run() {
    for_each_item(a_, [&](const Item& item) {
      std::int32_t from = item.begin;
      do {
        MLACHECK_UNROLL
        for (int n = 0; n < kTiles; ++n) out_[n].clear();
        MLACHECK_ROLLED
        for (std::int32_t tiles = item.tiles(from, a_.chunk); tiles > 0; --tiles) multiply();
        end_chunk(item, from);
        from += a_.chunk;
      } while (from < item.end);
    });
  }

 private:
  // out = out * rescale + weights * values
  MLACHECK_DEVICE_FN void multiply() {
    device::wait(device::shared(s_.weights_written[weights_.place]), weights_.parity);
    K::Weights& w = s_.weights[weights_.place];
    const device::Words2 rescaled = device::load(device::shared(w.rescaled));
    if ((rescaled.word[0] | rescaled.word[1]) != 0) {
      const float low =
          rescaled.word[0] != 0 ? device::load(device::shared(w.rescale[lane_ / 4])) : 1.0f;
      const float high =
          rescaled.word[1] != 0 ? device::load(device::shared(w.rescale[lane_ / 4 + 8])) : 1.0f;
      MLACHECK_UNROLL
      for (int n = 0; n < kTiles; ++n) MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i) out_[n][i] = device::multiply(out_[n][i], i < 2 ? low : high);
    }
    const device::Words2 low = device::load(device::shared(w.fragment[0][lane_]));
    const device::Words2 high = device::load(device::shared(w.fragment[1][lane_]));
    device::FragmentA p;
    p.set({{low.word[0], high.word[0], low.word[1], high.word[1]}});
    // The rows are here: their scores were computed.
    const device::SharedPointer<std::byte> values = device::shared(
        s_.rows[rows_.place][lane_ % 16][warp_ * (kVDim / K::kValueWarps) * 2 + lane_ / 16 * 16]);
    MLACHECK_UNROLL
    for (int n = 0; n < kTiles; n += 2) {
      device::FragmentB b[2];
      device::load_matrix_transposed(b[0], b[1], values + n * 16);
      device::mma_m16n8k16<E>(out_[n], p, b[0]);
      device::mma_m16n8k16<E>(out_[n + 1], p, b[1]);
    }
    device::arrive_warp(device::shared(s_.rows_consumed[rows_.place]),
                        device::shared(s_.weights_read[weights_.place]));
    rows_.advance();
    weights_.advance();
  }

  // Folds the chunk with those before it, and keeps the result, or writes it out.
  MLACHECK_DEVICE_FN void end_chunk(const Item& item, std::int32_t from) {
    device::wait(device::shared(s_.chunk_written), chunk_parity_);
    chunk_parity_ ^= 1;
    const bool first = from == item.begin, last = from + a_.chunk >= item.end;
    const std::int64_t keeper = a_.split ? item.number : device::block_index();
    auto* kept = reinterpret_cast<device::Floats4*>(a_.partial_out) +
                 (keeper * K::kValueWarps + warp_) * (kTiles * 32) + lane_;
    MLACHECK_UNROLL
    for (int part = 0; part < kTiles; part += kPart) {
      if (!first) fold_kept(part, kept);
      if (a_.split || !last) {
        MLACHECK_UNROLL
        for (int n = part; n < part + kPart; ++n) {
          device::Accumulator& c = out_[n];
          device::store(kept + n * 32, {{c[0], c[1], c[2], c[3]}});
        }
      } else {
        write(part, item);
      }
    }
    device::arrive_warp(device::shared(s_.chunk_read));
  }

  MLACHECK_DEVICE_FN void fold_kept(int part, const device::Floats4* kept) {
    const FoldWeights low = device::load(device::shared(s_.chunk_end.fold_weights[lane_ / 4]));
    const FoldWeights high = device::load(device::shared(s_.chunk_end.fold_weights[lane_ / 4 + 8]));
    MLACHECK_UNROLL
    for (int n = part; n < part + kPart; ++n) {
      const device::Floats4 earlier = device::load(kept + n * 32);
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i)
        out_[n][i] = fold(i < 2 ? low : high, earlier.value[i], out_[n][i]);
    }
  }

  MLACHECK_DEVICE_FN void write(int part, const Item& item) {
    const std::int32_t row = static_cast<std::int32_t>(lane_ / 4);
    const std::int32_t head = static_cast<std::int32_t>(item.group) * K::kHeads + row;
    if (head < a_.heads) write_row<0>(part, item, head, row);
    if (head + 8 < a_.heads) write_row<2>(part, item, head + 8, row + 8);
  }

  template <int kFirst>
  MLACHECK_DEVICE_FN void write_row(int part, const Item& item, std::int32_t head,
                                    std::int32_t row) {
    const float factor = device::load(device::shared(s_.chunk_end.factor[row]));
    const auto column = static_cast<std::int32_t>(warp_ * (kVDim / K::kValueWarps) + lane_ % 4 * 2);
    MLACHECK_UNROLL
    for (int n = part; n < part + kPart; ++n)
      write_out<E>(a_, item.token, head, column + n * 8, normalised(out_[n][kFirst], factor),
                   normalised(out_[n][kFirst + 1], factor));
  }

  const SparseAttentionArguments& a_;
  K::Shared& s_;
  unsigned warp_;
  unsigned lane_;
  RingPosition<K::kStages> rows_;
  RingPosition<K::kSlots> weights_;
  unsigned chunk_parity_ = 0;
  device::Accumulator out_[kTiles];
};

}  // namespace mlacheck::kernels
