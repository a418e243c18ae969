#pragma once

#include "cuda/kernels/sparse_attention_64_shared.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// The softmax role of sparse_attention_64, for the 16 heads of `group`. Lane 4 g + t has rows g and
// g + 8, of a tile's entries 2t, 2t + 1, 2t + 8, 2t + 9.
template <device::Element E>
class Softmax64 {
  using Shared = SparseAttention64::Shared;

 public:
  MLACHECK_DEVICE_FN Softmax64(const SparseAttentionArguments& arguments, Shared& shared,
                               unsigned group)
      : a_(arguments), s_(shared), group_(group), lane_(device::lane_index()) {}

  MLACHECK_DEVICE_FN void run() {
    for_each_item(a_, [&](const Item& item) {
      std::int32_t from = item.begin;
      do {
        softmax_.reset();
        MLACHECK_ROLLED
        for (std::int32_t tiles = item.tiles(from, a_.chunk); tiles > 0; --tiles) weigh_tile();
        softmax_.finish();
        end_chunk(item, from);
        from += a_.chunk;
      } while (from < item.end);
    });
  }

 private:
  MLACHECK_DEVICE_FN void weigh_tile() {
    device::wait(device::shared(s_.scores_written[group_ / 2]), scores_parity_);
    scores_parity_ ^= 1;
    float score[2][4];
    add_partial_scores(score);
    const auto mask =
        device::load(device::shared(s_.masks[rows_.place][0]).template as<unsigned>());
    scale_present(mask, score);
    float rescale[2];
    const bool rescaled = softmax_.step(score, rescale);

    const unsigned slot = weights_.place;
    device::wait(device::shared(s_.weights_read[slot]), weights_.parity ^ 1);
    SparseAttention64::Weights& weights = s_.weights[slot];
    device::store(
        device::shared(weights.fragment[group_][lane_]),
        {{device::pack<E>(score[0][0], score[0][1]), device::pack<E>(score[1][0], score[1][1]),
          device::pack<E>(score[0][2], score[0][3]), device::pack<E>(score[1][2], score[1][3])}});
    if (rescaled && lane_ % 4 == 0) {
      device::store(device::shared(weights.rescale[group_ * 16 + lane_ / 4]), rescale[0]);
      device::store(device::shared(weights.rescale[group_ * 16 + lane_ / 4 + 8]), rescale[1]);
    }
    if (lane_ == 0)
      device::store(device::shared(weights.rescaled[group_]),
                    static_cast<std::uint8_t>(rescaled ? 1 : 0));
    device::arrive_warp(device::shared(s_.weights_written[slot]));
    rows_.advance();
    weights_.advance();
  }

  // (c0 + c1) + (c2 + c3), loaded two at a time: registers are few.
  MLACHECK_DEVICE_FN void add_partial_scores(float (&score)[2][4]) {
    const auto part = [&](int half, int slice) {
      return device::load(device::shared(s_.scores[group_][slice][half][lane_]));
    };
    MLACHECK_UNROLL
    for (int half = 0; half < 2; ++half) {
      float sum[2][4];
      MLACHECK_UNROLL
      for (int pair = 0; pair < 2; ++pair) {
        const device::Floats4 a = part(half, 2 * pair), b = part(half, 2 * pair + 1);
        MLACHECK_UNROLL
        for (int i = 0; i < 4; ++i) sum[pair][i] = device::add(a.value[i], b.value[i]);
      }
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i)
        score[i / 2][2 * half + i % 2] = device::add(sum[0][i], sum[1][i]);
    }
  }

  // To log2 units; -inf where absent. Byte i of the mask is of entries 4 i ... 4 i + 3.
  MLACHECK_DEVICE_FN void scale_present(unsigned mask, float (&score)[2][4]) {
    const unsigned t = lane_ % 4;
    const unsigned present = mask >> (8 * (t / 2) + 2 * (t % 2));
    MLACHECK_UNROLL
    for (int i = 0; i < 8; ++i) {
      float& x = score[i / 4][i % 4];
      const float scaled = device::multiply(x, a_.scale_log2);
      x = (present >> (i / 2 % 2 * 16 + i % 2) & 1) != 0 ? scaled : kMinusInfinity;
    }
  }

  // Folds the chunk into the heads' state; hands the weights of the fold to the math warps; at the
  // end of the row, writes lse and, in place of the sum, the factor of the output.
  MLACHECK_DEVICE_FN void end_chunk(const Item& item, std::int32_t from) {
    device::wait(device::shared(s_.chunk_read), chunk_parity_ ^ 1);
    chunk_parity_ ^= 1;
    // Asked anew, or the compiler keeps the addresses below in registers through the loop over
    // tiles.
    const unsigned lane = device::lane_index();
    if (lane % 4 == 0) {
      MLACHECK_UNROLL
      for (int row = 0; row < 2; ++row) {
        const unsigned h = group_ * 16 + lane / 4 + 8 * static_cast<unsigned>(row);
        const HeadState chunk{softmax_.max[row], softmax_.sum[row], softmax_.largest[row]};
        if (a_.split) {
          write_partial(a_, item.number, SparseAttention64::kHeads, h, chunk);
          continue;
        }
        HeadState state = chunk;
        if (from > item.begin) {
          state = {device::load(device::shared(s_.max[h])), device::load(device::shared(s_.sum[h])),
                   device::load(device::shared(s_.largest[h]))};
          device::store(device::shared(s_.fold_weights[h]), fold(state, chunk));
        }
        const auto head = static_cast<std::int32_t>(item.group * SparseAttention64::kHeads + h);
        if (from + a_.chunk >= item.end && head < a_.heads) {
          write_head(a_, item.token, head, state);
          state.sum = output_factor(a_, head, state);
        }
        device::store(device::shared(s_.max[h]), state.max);
        device::store(device::shared(s_.sum[h]), state.sum);
        device::store(device::shared(s_.largest[h]), state.largest);
      }
    }
    device::arrive_warp(device::shared(s_.chunk_written));
  }

  const SparseAttentionArguments& a_;
  Shared& s_;
  unsigned group_;
  unsigned lane_;
  RingPosition<SparseAttention64::kStages> rows_;
  RingPosition<SparseAttention64::kSlots> weights_;
  unsigned scores_parity_ = 0;
  unsigned chunk_parity_ = 0;
  OnlineSoftmax<2> softmax_;
};

}  // namespace mlacheck::kernels
