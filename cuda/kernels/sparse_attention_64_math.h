#pragma once

#include "cuda/kernels/sparse_attention_64_out.h"

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
      : a_(arguments),
        s_(shared),
        warp_(warp),
        lane_(device::lane_index()),
        keys_(
            device::shared(shared.rows[0][lane_ % 8 + lane_ / 16 * 8]
                                      [slice() * (kQkDim / K::kSlices) * 2 + lane_ / 8 % 2 * 16])),
        out_(arguments, shared, warp) {}

  MLACHECK_DEVICE_FN void run() {
    for_each_item(a_, [&](const Item& item) {
      load_q(item);
      std::int32_t from = item.begin;
      do {
        out_.clear();
        const std::int32_t tiles = item.tiles(from, a_.chunk);
        if (tiles > 0) multiply_chunk(tiles);
        out_.end_chunk(item, from);
        from += a_.chunk;
      } while (from < item.end);
    });
  }

 private:
  // The scores of a tile come before the values of the tile before, whose weights are computed
  // meanwhile. What the next step needs is asked for between the products of this one.
  MLACHECK_DEVICE_FN void multiply_chunk(std::int32_t tiles) {
    begin_scores(look_at_rows());
    multiply_scores<false>();
    if (tiles > 1) {
      begin_scores(look_at_rows());
      MLACHECK_ROLLED
      for (;;) {
        multiply_scores<true>();
        begin_values();
        if (--tiles == 1) break;  // here, so that no key fragment lives where none is loaded
        const device::Look rows = look_at_rows();
        multiply_values(2);
        begin_scores(rows);
        multiply_values(3);
      }
      multiply_values(2);
      multiply_values(3);
    }
    load_values();
    wait_for_weights(look_at_weights());
    begin_values();
    device::arrive_warp(device::shared(s_.rows_consumed[valued_.place]));
    valued_.advance();
    multiply_values(2);
    multiply_values(3);
  }

  // Whether the Q fragment of the second 16 heads is in shared memory: every other one and the
  // last, so that each is on its way for two steps.
  MLACHECK_DEVICE_FN static constexpr bool in_shared(int step) {
    return step % 2 == 1 || step == K::kSteps - 1;
  }

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
          words.word[0] = device::load(q + 8 * step);
          words.word[2] = device::load(q + 8 * step + 4);
        }
        if (head + 8 < a_.heads) {
          words.word[1] = device::load(q8 + 8 * step);
          words.word[3] = device::load(q8 + 8 * step + 4);
        }
        if (tile == 1 && in_shared(step))
          device::store(device::shared(s_.q[warp_][step / 2][lane_]), words);
        else
          q_[tile == 0 ? step : K::kSteps + step / 2].set(words);
      }
    }
  }

  MLACHECK_DEVICE_FN device::Look look_at_rows() {
    return device::look(device::shared(s_.rows_arrived[scored_.place]), scored_.parity);
  }
  MLACHECK_DEVICE_FN device::Look look_at_weights() {
    return device::look(device::shared(s_.weights_written[weights_.place]), weights_.parity);
  }

  MLACHECK_DEVICE_FN void begin_scores(const device::Look& look) {
    device::wait(look, device::shared(s_.rows_arrived[scored_.place]), scored_.parity);
    load_keys(0);
  }
  MLACHECK_DEVICE_FN void load_keys(int step) {
    device::load_matrix(k_[step % 3][0], k_[step % 3][1],
                        keys_ + scored_.place * unsigned{sizeof s_.rows[0]} + step * 32);
  }

  // Partial scores of the next tile, for the softmax warps. K and Q fragments are loaded two steps
  // ahead. With kThenValues, the values of the oldest tile and the first of its weights are loaded
  // before the scores are stored, which waits for the last products anyway.
  template <bool kThenValues>
  MLACHECK_DEVICE_FN void multiply_scores() {
    const unsigned lane = device::anew(lane_);
    device::Accumulator score[2][2];
    MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) score[i / 2][i % 2].clear();
    device::FragmentA shared_q[2];
    const auto load_shared_q = [&](int step) {
      shared_q[step / 2 % 2].set(device::load(device::shared(s_.q[warp_][step / 2][lane])));
    };
    device::Look weights;
    load_shared_q(1);
    load_keys(1);
    load_shared_q(3);
    MLACHECK_UNROLL
    for (int step = 0; step < K::kSteps; ++step) {
      if (step + 2 < K::kSteps) load_keys(step + 2);
      if (kThenValues && step == K::kSteps - 1) {
        load_values();
        weights = look_at_weights();
      }
      MLACHECK_UNROLL
      for (int rows = 0; rows < 2; ++rows)
        device::mma_m16n8k16<E>(score[1][rows],
                                in_shared(step) ? shared_q[step / 2 % 2] : q_[K::kSteps + step / 2],
                                k_[step % 3][rows]);
      if (step % 2 == 1 && step + 4 < K::kSteps) load_shared_q(step + 4);
      if (step == K::kSteps - 4) load_shared_q(K::kSteps - 1);
      MLACHECK_UNROLL
      for (int rows = 0; rows < 2; ++rows)
        device::mma_m16n8k16<E>(score[0][rows], q_[step], k_[step % 3][rows]);
    }
    // That the weights are here also says that the softmax warps have read the scores before these.
    if (kThenValues) wait_for_weights(weights);
    MLACHECK_UNROLL
    for (int tile = 0; tile < 2; ++tile) MLACHECK_UNROLL
    for (int rows = 0; rows < 2; ++rows) {
      device::Accumulator& c = score[tile][rows];
      device::store(device::shared(s_.scores[half() * 2 + tile][slice()][rows][lane]),
                    {{c[0], c[1], c[2], c[3]}});
    }
    scored_.advance();
    if (kThenValues) {
      device::arrive_warp(device::shared(s_.scores_written[half()]),
                          device::shared(s_.rows_consumed[valued_.place]));
      valued_.advance();
    } else {
      device::arrive_warp(device::shared(s_.scores_written[half()]));
    }
  }

  // Of the oldest tile whose values were not multiplied. Its rows are here: it has scores.
  MLACHECK_DEVICE_FN void load_values() {
    const unsigned lane = device::anew(lane_);
    const device::SharedPointer<std::byte> values =
        device::shared(s_.rows[valued_.place][lane % 16][warp_ * 128 + lane / 16 * 16]);
    MLACHECK_UNROLL
    for (int n = 0; n < 8; n += 2)
      device::load_matrix_transposed(v_[n], v_[n + 1], values + n * 16);
  }

  MLACHECK_DEVICE_FN void wait_for_weights(const device::Look& look) {
    device::wait(look, device::shared(s_.weights_written[weights_.place]), weights_.parity);
    rescaled_ = device::load(
        device::shared(s_.weights[weights_.place].rescaled[0]).template as<std::uint32_t>());
    load_weights(0);
  }
  MLACHECK_DEVICE_FN void load_weights(int g) {
    p_[g].set(
        device::load(device::shared(s_.weights[weights_.place].fragment[g][device::anew(lane_)])));
  }

  // out = out * rescale + weights * values; the products of the first 32 heads.
  MLACHECK_DEVICE_FN void begin_values() {
    MLACHECK_UNROLL
    for (int g = 1; g < 4; ++g) load_weights(g);
    if (rescaled_ != 0) {
      MLACHECK_UNROLL
      for (int g = 0; g < 4; ++g)
        if ((rescaled_ >> (8 * g) & 0xff) != 0) out_.rescale(g, lane_, s_.weights[weights_.place]);
    }
    multiply_values(0);
    multiply_values(1);
  }

  // Of 16 heads.
  MLACHECK_DEVICE_FN void multiply_values(int g) {
    if (g == 3) {
      device::arrive_warp(device::shared(s_.weights_read[weights_.place]));
      weights_.advance();
    }
    out_.add(g, p_[g], v_);
  }

  MLACHECK_DEVICE_FN int half() const { return static_cast<int>(warp_ / 4); }
  MLACHECK_DEVICE_FN int slice() const { return static_cast<int>(warp_ % 4); }
  MLACHECK_DEVICE_FN int row() const { return static_cast<int>(lane_ / 4); }
  MLACHECK_DEVICE_FN int column() const { return static_cast<int>(lane_ % 4); }

  const SparseAttentionArguments& a_;
  Shared& s_;
  unsigned warp_;
  unsigned lane_;
  device::SharedPointer<std::byte> keys_;  // this lane's part of the first place's rows
  RingPosition<K::kStages> scored_;        // the next tile whose scores are multiplied
  RingPosition<K::kStages> valued_;        // the next tile whose values are multiplied
  RingPosition<K::kSlots> weights_;
  device::FragmentA q_[2 * K::kSteps - K::kSharedSteps];
  device::FragmentB k_[3][2];
  device::FragmentB v_[8];
  device::FragmentA p_[4];
  std::uint32_t rescaled_ = 0;
  Out64<E> out_;
};

}  // namespace mlacheck::kernels
