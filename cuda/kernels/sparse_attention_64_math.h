#pragma once

#include "cuda/kernels/sparse_attention_64_shared.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// The math role of sparse_attention_64: warp w computes scores of 32 heads (half = w / 4) over 144
// dims (slice = w % 4), and out of 64 heads x 64 dims.
template <device::Element E>
class Math64 {
  using K = SparseAttention64;
  using Shared = K::Shared;

 public:
  MLACHECK_DEVICE_FN Math64(const SparseAttentionArguments& arguments, Shared& shared,
                            unsigned warp)
      : a_(arguments), s_(shared), warp_(warp), lane_(device::lane_index()) {}

  MLACHECK_DEVICE_FN void run() {
    for_each_item(a_, [&](const Item& item) {
      load_q(item);
      std::int32_t from = item.begin;
      do {
        MLACHECK_UNROLL
        for (int g = 0; g < 4; ++g) MLACHECK_UNROLL
        for (int n = 0; n < 8; ++n) out_[g][n].clear();
        std::int32_t tiles = item.tiles(from, a_.chunk);
        if (tiles > 0) {
          multiply_scores();
          MLACHECK_ROLLED
          while (--tiles > 0) {
            multiply_scores();
            multiply_values();
          }
          multiply_values();
        }
        end_chunk(item, from);
        from += a_.chunk;
      } while (from < item.end);
    });
  }

 private:
  // Q of a head tile: rows g and g + 8 of words 8 step + t and + 4.
  MLACHECK_DEVICE_FN void load_q(const Item& item) {
    const std::int32_t head0 =
        static_cast<std::int32_t>(item.group) * K::kHeads + half() * 32 + row();
    MLACHECK_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      const std::int32_t head = head0 + tile * 16;
      const auto* q = reinterpret_cast<const std::uint32_t*>(a_.q + item.token * a_.q_token_stride +
                                                             head * a_.q_head_stride) +
                      slice() * (kQkDim / K::kSlices / 2) + column();
      const auto* q8 = reinterpret_cast<const std::uint32_t*>(
          reinterpret_cast<const std::uint16_t*>(q) + 8 * a_.q_head_stride);
      MLACHECK_UNROLL
      for (int step = 0; step < K::kSteps; ++step) {
        device::Words4 words = {};
        if (head < a_.heads) {
          words.word[0] = device::load_constant(q + 8 * step);
          words.word[2] = device::load_constant(q + 8 * step + 4);
        }
        if (head + 8 < a_.heads) {
          words.word[1] = device::load_constant(q8 + 8 * step);
          words.word[3] = device::load_constant(q8 + 8 * step + 4);
        }
        if (tile == 1 && step < K::kSharedSteps)
          device::store(device::shared(s_.q[warp_][step][lane_]), words);
        else
          q_[tile == 0 ? step : K::kSteps + step - K::kSharedSteps].set(words);
      }
    }
  }

  // Partial scores of the next tile, for the softmax warps.
  MLACHECK_DEVICE_FN void multiply_scores() {
    const unsigned stage = scored_.place;
    device::wait(device::shared(s_.rows_arrived[stage]), scored_.parity);
    // K fragments of 2 x 8 rows x 16 dims, loaded one step ahead; Q fragments of shared memory, two.
    const device::SharedPointer<std::byte> keys =
        device::shared(s_.rows[stage][lane_ % 8 + lane_ / 16 * 8]
                              [slice() * (kQkDim / K::kSlices) * 2 + (lane_ / 8 % 2) * 16]);
    device::Accumulator score[2][2];
    MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) score[i / 2][i % 2].clear();
    device::FragmentB k[2][2];
    device::FragmentA shared_q[2];
    const auto load_shared_q = [&](int step) {
      shared_q[step % 2].set(device::load(device::shared(s_.q[warp_][step][lane_])));
    };
    device::load_matrix(k[0][0], k[0][1], keys);
    load_shared_q(0);
    MLACHECK_UNROLL
    for (int step = 0; step < K::kSteps; ++step) {
      if (step + 1 < K::kSteps)
        device::load_matrix(k[(step + 1) % 2][0], k[(step + 1) % 2][1], keys + (step + 1) * 32);
      if (step + 1 < K::kSharedSteps) load_shared_q(step + 1);
      MLACHECK_UNROLL
      for (int rows = 0; rows < 2; ++rows)
        device::mma_m16n8k16<E>(score[0][rows], q_[step], k[step % 2][rows]);
      MLACHECK_UNROLL
      for (int rows = 0; rows < 2; ++rows)
        device::mma_m16n8k16<E>(
            score[1][rows],
            step < K::kSharedSteps ? shared_q[step % 2] : q_[K::kSteps + step - K::kSharedSteps],
            k[step % 2][rows]);
    }
    device::wait(device::shared(s_.scores_read[half()]), scores_parity_ ^ 1);
    MLACHECK_UNROLL
    for (int tile = 0; tile < 2; ++tile) MLACHECK_UNROLL
    for (int rows = 0; rows < 2; ++rows) {
      device::Accumulator& c = score[tile][rows];
      device::store(device::shared(s_.scores[half() * 2 + tile][slice()][rows][lane_]),
                    {{c[0], c[1], c[2], c[3]}});
    }
    device::arrive_warp(device::shared(s_.scores_written[half()]));
    scores_parity_ ^= 1;
    scored_.advance();
  }

  // out = out * rescale + weights * values, of the oldest tile whose values were not multiplied.
  MLACHECK_DEVICE_FN void multiply_values() {
    const unsigned stage = valued_.place, slot = weights_.place;
    // Its rows are here: their scores were computed.
    const device::SharedPointer<std::byte> values =
        device::shared(s_.rows[stage][lane_ % 16][warp_ * 128 + lane_ / 16 * 16]);
    device::FragmentB v[2][2];
    device::load_matrix_transposed(v[0][0], v[0][1], values);
    device::wait(device::shared(s_.weights_written[slot]), weights_.parity);
    K::Weights& weights = s_.weights[slot];
    const device::Words4 rescaled = device::load(device::shared(weights.rescaled));
    device::FragmentA p[4];
    MLACHECK_UNROLL
    for (int g = 0; g < 4; ++g) p[g].set(device::load(device::shared(weights.fragment[g][lane_])));
    if ((rescaled.word[0] | rescaled.word[1] | rescaled.word[2] | rescaled.word[3]) != 0) {
      MLACHECK_UNROLL
      for (int g = 0; g < 4; ++g)
        if (rescaled.word[g] != 0) rescale(g, weights);
    }
    MLACHECK_UNROLL
    for (int n = 0; n < 8; n += 2) {
      if (n + 2 < 8)
        device::load_matrix_transposed(v[(n / 2 + 1) % 2][0], v[(n / 2 + 1) % 2][1],
                                       values + (n + 2) * 16);
      MLACHECK_UNROLL
      for (int i = 0; i < 8; ++i)
        device::mma_m16n8k16<E>(out_[i % 4][n + i / 4], p[i % 4], v[n / 2 % 2][i / 4]);
    }
    device::arrive_warp(device::shared(s_.rows_consumed[stage]),
                        device::shared(s_.weights_read[slot]));
    valued_.advance();
    weights_.advance();
  }

  MLACHECK_DEVICE_FN void rescale(int g, K::Weights& weights) {
    const float low = device::load(device::shared(weights.rescale[g * 16 + row()]));
    const float high = device::load(device::shared(weights.rescale[g * 16 + row() + 8]));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) out_[g][n][i] = device::multiply(out_[g][n][i], i < 2 ? low : high);
  }

  // Folds the chunk with those before it, and keeps the result, or writes it out.
  MLACHECK_DEVICE_FN void end_chunk(const Item& item, std::int32_t from) {
    device::wait(device::shared(s_.chunk_written), chunk_parity_);
    chunk_parity_ ^= 1;
    const bool first = from == item.begin, last = from + a_.chunk >= item.end;
    const std::int64_t keeper = a_.split ? item.number : device::block_index();
    auto* kept = reinterpret_cast<device::Floats4*>(a_.partial_out) +
                 (keeper * K::kMathWarps + warp_) * (4 * 8 * 32) + lane_;
    MLACHECK_UNROLL
    for (int g = 0; g < 4; ++g) {
      if (!first) fold_kept(g, kept);
      if (a_.split || !last) {
        MLACHECK_UNROLL
        for (int n = 0; n < 8; ++n) {
          device::Accumulator& c = out_[g][n];
          device::store(kept + (g * 8 + n) * 32, {{c[0], c[1], c[2], c[3]}});
        }
      } else {
        write(g, item);
      }
    }
    device::arrive_warp(device::shared(s_.chunk_read));
  }

  MLACHECK_DEVICE_FN void fold_kept(int g, const device::Floats4* kept) {
    const FoldWeights low = device::load(device::shared(s_.fold_weights[g * 16 + row()]));
    const FoldWeights high = device::load(device::shared(s_.fold_weights[g * 16 + row() + 8]));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) {
      const device::Floats4 earlier = device::load(kept + (g * 8 + n) * 32);
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i)
        out_[g][n][i] = fold(i < 2 ? low : high, earlier.value[i], out_[g][n][i]);
    }
  }

  MLACHECK_DEVICE_FN void write(int g, const Item& item) {
    const std::int32_t head = static_cast<std::int32_t>(item.group) * K::kHeads + g * 16 + row();
    const float low = device::load(device::shared(s_.sum[g * 16 + row()]));
    const float high = device::load(device::shared(s_.sum[g * 16 + row() + 8]));
    MLACHECK_UNROLL
    for (int n = 0; n < 8; ++n) {
      const std::int32_t at = static_cast<std::int32_t>(warp_) * 64 + n * 8 + column() * 2;
      device::Accumulator& c = out_[g][n];
      if (head < a_.heads)
        write_out<E>(a_, item.token, head, at, normalised(c[0], low), normalised(c[1], low));
      if (head + 8 < a_.heads)
        write_out<E>(a_, item.token, head + 8, at, normalised(c[2], high), normalised(c[3], high));
    }
  }

  MLACHECK_DEVICE_FN int half() const { return static_cast<int>(warp_ / 4); }
  MLACHECK_DEVICE_FN int slice() const { return static_cast<int>(warp_ % 4); }
  MLACHECK_DEVICE_FN int row() const { return static_cast<int>(lane_ / 4); }
  MLACHECK_DEVICE_FN int column() const { return static_cast<int>(lane_ % 4); }

  const SparseAttentionArguments& a_;
  Shared& s_;
  unsigned warp_;
  unsigned lane_;
  RingPosition<K::kStages> scored_;  // the next tile whose scores are multiplied
  RingPosition<K::kStages> valued_;  // the next tile whose values are multiplied
  RingPosition<K::kSlots> weights_;
  unsigned scores_parity_ = 0;
  unsigned chunk_parity_ = 0;
  device::FragmentA q_[2 * K::kSteps - K::kSharedSteps];
  device::Accumulator out_[4][8];
};

}  // namespace mlacheck::kernels
