#pragma once

#include "cuda/kernels/sparse_attention_16_shared.h"
#include "cuda/kernels/sparse_attention_result.h"

namespace mlacheck::kernels {

// The score role of sparse_attention_16: warp w multiplies the 288 dims from 288 w for all 16
// heads, and does the softmax of heads 8 w ... 8 w + 7.
template <device::Element E>
class Scores16 {
  using K = SparseAttention16;

 public:
  MLACHECK_DEVICE_FN Scores16(const SparseAttentionArguments& arguments, K::Shared& shared,
                              unsigned warp)
      : a_(arguments), s_(shared), warp_(warp), lane_(device::lane_index()) {}

  MLACHECK_DEVICE_FN void run() {
    for_each_item(a_, [&](const Item& item) {
      load_q(item);
      HeadState state = {};
      std::int32_t from = item.begin;
      do {
        softmax_.reset();
        std::int32_t tiles = item.tiles(from, a_.chunk);
        if (tiles > 0) multiply();
        MLACHECK_ROLLED
        for (; tiles > 0; --tiles) {
          float score[1][4];
          exchange(score);
          if (tiles > 1) multiply();
          weigh(score);
        }
        softmax_.finish();
        end_chunk(item, from, state);
        from += a_.chunk;
      } while (from < item.end);
    });
  }

 private:
  // Q: rows g and g + 8 of words 8 step + t and + 4.
  MLACHECK_DEVICE_FN void load_q(const Item& item) {
    const std::int32_t head =
        static_cast<std::int32_t>(item.group) * K::kHeads + static_cast<std::int32_t>(lane_ / 4);
    const std::uint16_t* row = a_.q + item.token * a_.q_token_stride + head * a_.q_head_stride +
                               warp_ * (kQkDim / K::kScoreWarps) + lane_ % 4 * 2;
    const auto* q = reinterpret_cast<const std::uint32_t*>(row);
    const auto* q8 = reinterpret_cast<const std::uint32_t*>(row + 8 * a_.q_head_stride);
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
      q_[step].set(words);
    }
  }

  // Scores of the next tile over this warp's dims: two chains for each 8 rows, then their sum.
  MLACHECK_DEVICE_FN void multiply() {
    device::wait(device::shared(s_.rows_arrived[rows_.place]), rows_.parity);
    mask_ = device::load(device::shared(s_.masks[rows_.place][0])) |
            device::load(device::shared(s_.masks[rows_.place][1])) << 8;
    const unsigned column = warp_ * (kQkDim / K::kScoreWarps) * 2 + lane_ / 8 % 2 * 16;
    const device::SharedPointer<std::byte> keys =
        device::shared(s_.rows[rows_.place][lane_ % 8 + lane_ / 16 * 8][column]);
    MLACHECK_UNROLL
    for (int rows = 0; rows < 2; ++rows) {
      score_[rows].clear();
      second_[rows].clear();
    }
    constexpr int kHalf = K::kSteps / 2;
    MLACHECK_UNROLL
    for (int step = 0; step < kHalf; ++step) {
      device::FragmentB b[2], c[2];
      device::load_matrix(b[0], b[1], keys + step * 32);
      device::load_matrix(c[0], c[1], keys + (step + kHalf) * 32);
      MLACHECK_UNROLL
      for (int rows = 0; rows < 2; ++rows) {
        device::mma_m16n8k16<E>(score_[rows], q_[step], b[rows]);
        device::mma_m16n8k16<E>(second_[rows], q_[step + kHalf], c[rows]);
      }
    }
    MLACHECK_UNROLL
    for (int rows = 0; rows < 2; ++rows) MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) score_[rows][i] = device::add(score_[rows][i], second_[rows][i]);
    rows_.advance();
  }

  // Each warp gives the other the half that it does not finish, and scales its own; -inf where
  // absent.
  MLACHECK_DEVICE_FN void exchange(float (&score)[1][4]) {
    const int own = warp_ == 0 ? 0 : 2, other = 2 - own;
    device::store(device::shared(s_.exchange[exchanges_ & 1][warp_][lane_]),
                  {{pick(score_[0], other, 0), pick(score_[0], other, 1), pick(score_[1], other, 0),
                    pick(score_[1], other, 1)}});
    device::sync_named<1>(K::kScoreWarps * device::kWarpSize);
    const device::Floats4 part =
        device::load(device::shared(s_.exchange[exchanges_ & 1][warp_ ^ 1][lane_]));
    ++exchanges_;
    const unsigned present = mask_ >> 2 * (lane_ % 4);
    MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float sum = device::add(pick(score_[i / 2], own, i % 2), part.value[i]);
      const float scaled = device::multiply(sum, a_.scale_log2);
      score[0][i] = (present >> (i / 2 * 8 + i % 2) & 1) != 0 ? scaled : kMinusInfinity;
    }
  }

  MLACHECK_DEVICE_FN static float pick(device::Accumulator& c, int half, int i) {
    return half == 0 ? c[i] : c[2 + i];
  }

  // Weights of the tile, for the value warps.
  MLACHECK_DEVICE_FN void weigh(float (&score)[1][4]) {
    float rescale[1];
    const bool rescaled = softmax_.step(score, rescale);
    device::wait(device::shared(s_.weights_read[weights_.place]), weights_.parity ^ 1);
    K::Weights& w = s_.weights[weights_.place];
    device::store(
        device::shared(w.fragment[warp_][lane_]),
        {{device::pack<E>(score[0][0], score[0][1]), device::pack<E>(score[0][2], score[0][3])}});
    if (rescaled && lane_ % 4 == 0)
      device::store(device::shared(w.rescale[8 * warp_ + lane_ / 4]), rescale[0]);
    if (lane_ == 0) device::store(device::shared(w.rescaled.word[warp_]), rescaled ? 1u : 0u);
    device::arrive_warp(device::shared(s_.weights_written[weights_.place]));
    weights_.advance();
  }

  // Folds the chunk into the state; hands the weights of the fold to the value warps, and at the
  // end of the row the factor of the output.
  MLACHECK_DEVICE_FN void end_chunk(const Item& item, std::int32_t from, HeadState& state) {
    const HeadState chunk{softmax_.max[0], softmax_.sum[0], softmax_.largest[0]};
    device::wait(device::shared(s_.chunk_read), chunk_parity_ ^ 1);
    chunk_parity_ ^= 1;
    const unsigned h = 8 * warp_ + lane_ / 4;
    if (a_.split) {
      if (lane_ % 4 == 0) write_partial(a_, item.number, K::kHeads, h, chunk);
    } else {
      FoldWeights weights = {};
      if (from == item.begin)
        state = chunk;
      else
        weights = fold(state, chunk);
      if (lane_ % 4 == 0) {
        device::store(device::shared(s_.chunk_end.fold_weights[h]), weights);
        const auto head = static_cast<std::int32_t>(item.group * K::kHeads + h);
        if (from + a_.chunk >= item.end && head < a_.heads) {
          write_head(a_, item.token, head, state);
          device::store(device::shared(s_.chunk_end.factor[h]), output_factor(a_, head, state));
        }
      }
    }
    device::arrive_warp(device::shared(s_.chunk_written));
  }

  const SparseAttentionArguments& a_;
  K::Shared& s_;
  unsigned warp_;
  unsigned lane_;
  RingPosition<K::kStages> rows_;
  RingPosition<K::kSlots> weights_;
  unsigned exchanges_ = 0;
  unsigned chunk_parity_ = 0;
  unsigned mask_ = 0;  // of the tile whose scores are in score_
  OnlineSoftmax<1> softmax_;
  device::FragmentA q_[K::kSteps];
  device::Accumulator score_[2], second_[2];  // of 8 rows each
};

}  // namespace mlacheck::kernels
