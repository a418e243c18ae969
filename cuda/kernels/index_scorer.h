#pragma once

#include <limits>

#include "cuda/device/matrix.h"
#include "cuda/device/register.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"
#include "cuda/kernels/index_scores_queries.h"

namespace mlacheck::kernels {

// A warp of the index_scores kernels, with 32 keys in 64 registers; the queries stream past through
// shared memory. A score depends on its query, its key and the weights alone. Its operations, in
// order:
//
//   dot_h   8 tensor-core steps. Step 2 j + i takes the dims 32 j + 8 t + 4 i ... + 3, t = 0 ... 3:
//           so the 16 bytes that lane t loads of a key, or of a head, serve two steps
//   r_h     dot_h if it is > 0 or NaN, else +0
//   v[u,t]  of the heads of unit u, 16 u ... 16 u + 15, those congruent to t modulo 4:
//           fma(w r of 16 u + t + 12, fma(... + 4, fma(... + 8, round(w r of 16 u + t))))
//   s[t]    v[0,t] + v[1,t] + ... in ascending u
//   score   (s[0] + s[1]) + (s[2] + s[3])
//
// so a product passes at most ceil(heads / 16) + 4 roundings after its own. Heads past the last
// count as +0. Shared says how many units of a stage, and how many halves of a unit, a warp works
// on at one time: no bit depends on it. A key whose page or slot does not exist scores -inf, and
// nothing of it is read; one outside its row's range scores -inf, or nothing where scores are not
// masked.
template <device::Element E, class Shared>
class IndexScorer {
  static constexpr float kOutside = -std::numeric_limits<float>::infinity();
  static constexpr unsigned kStages = Shared::kStages;
  static constexpr int kUnits = Shared::kUnits, kHalves = Shared::kHalves;

 public:
  MLACHECK_DEVICE_FN IndexScorer(const IndexScoresArguments& arguments, Shared& shared,
                                 unsigned warp)
      : a_(arguments), s_(shared), warp_(warp), lane_(device::lane_index()) {}

 protected:
  static constexpr int kChunks = kIndexDim / 32;  // of 32 dims: two steps

  // Where a key lies, and whether it exists.
  struct Place {
    std::int64_t offset = 0;
    bool present = false;
  };
  MLACHECK_DEVICE_FN Place place_of(std::uint32_t key, std::int32_t request) const {
    const std::uint32_t page = a_.page_size.quotient(key);
    const std::uint32_t row = key - page * a_.page_size.divisor();
    std::int64_t block = page;
    if (a_.block_table != nullptr)
      block = device::load(a_.block_table + request * a_.block_table_stride + page);
    return place_in(block, row);
  }
  MLACHECK_DEVICE_FN Place place_in(std::int64_t block, std::uint32_t row) const {
    return {block * a_.page_stride + row * a_.row_stride,
            block >= 0 && block * a_.page_size.divisor() + row < a_.slots};
  }

  // Keys 16 m + lane / 4 and, in words[1], 8 after it: 16 bytes of each 64, from lane % 4 on. Row r
  // of fragment [m][] is key 16 m + r.
  MLACHECK_DEVICE_FN void set_keys(int m, const device::Words4 (&words)[2][kChunks]) {
    MLACHECK_UNROLL
    for (int j = 0; j < kChunks; ++j) MLACHECK_UNROLL
    for (int i = 0; i < 2; ++i)
      keys_[m][2 * j + i].set({{device::own_register(words[0][j].word[2 * i]),
                                device::own_register(words[1][j].word[2 * i]),
                                device::own_register(words[0][j].word[2 * i + 1]),
                                device::own_register(words[1][j].word[2 * i + 1])}});
  }

  // A row that has keys of other warps alone: every warp of the block lets every stage pass.
  MLACHECK_DEVICE_FN void pass_row() {
    if (stays()) return;
    MLACHECK_ROLLED
    for (std::int32_t head = 0; head < a_.heads; head += kStageHeads) {
      acquire();
      release();
    }
  }
  MLACHECK_DEVICE_FN void acquire() {
    device::wait(device::shared(s_.arrived[read_ % kStages]), read_ / kStages % 2);
  }
  MLACHECK_DEVICE_FN void release() {
    if (!stays()) device::arrive_warp(device::shared(s_.consumed[read_ % kStages]));
    ++read_;
  }

  // range_of_row() is called once its score is there, lest it be kept until then.
  template <class Range>
  MLACHECK_DEVICE_FN void score_row(std::uint32_t row, Range range_of_row) {
    if (stays()) read_ = 0;
    float sum[4] = {-0.0f, -0.0f, -0.0f, -0.0f};  // of keys g + 8 i; -0 + v is v
    MLACHECK_ROLLED
    for (std::int32_t head = 0; head < a_.heads; head += kStageHeads) {
      acquire();
      MLACHECK_ROLLED
      for (int unit = 0; unit < 2; unit += kUnits)
        add_units(unit, a_.heads - head - kUnitHeads * unit, sum);
      release();
    }
    // Four lanes hold parts of four keys: after the exchange each has one key.
    const bool upper = (lane_ & 1) != 0, last = (lane_ & 2) != 0;
    const float first = add_pair(upper, sum[0], sum[2], 1),
                second = add_pair(upper, sum[1], sum[3], 1);
    const float score = add_pair(last, first, second, 2);
    const unsigned k = (upper ? 16 : 0) + (last ? 8 : 0) + lane_ / 4;
    const IndexRow range = range_of_row();
    const bool inside = my_key_ + k >= range.begin && my_key_ + k < range.end;
    if (inside || a_.masks) write(row, k, inside && (present_ >> k & 1) != 0 ? score : kOutside);
  }

  // Two lanes hold parts of a and b: the one gets the sum of a, the other of b.
  MLACHECK_DEVICE_FN static float add_pair(bool takes_b, float a, float b, unsigned lane_mask) {
    return device::add(takes_b ? b : a, device::shuffle_xor(takes_b ? a : b, lane_mask));
  }

  // kUnits units, of whose heads `left` are left. Columns 2 t and 2 t + 1 of tile i are heads
  // 4 i + t of a unit's lower and upper half.
  MLACHECK_DEVICE_FN void add_units(int unit, std::int32_t left, float (&sum)[4]) {
    const unsigned g = lane_ / 4, t = lane_ % 4;
    const unsigned word = g % 2 * kHalfWords + g / 2 * kHeadWords + t;
    float v[kUnits][4] = {};
    MLACHECK_UNROLL
    for (int first = 0; first < 2; first += kHalves) {
      device::Accumulator dot[kUnits][kHalves][2];  // of 16 keys each
      MLACHECK_UNROLL
      for (int u = 0; u < kUnits; ++u) MLACHECK_UNROLL
      for (int h = 0; h < kHalves; ++h) MLACHECK_UNROLL
      for (int m = 0; m < 2; ++m) dot[u][h][m].clear();
      MLACHECK_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        device::Words4 words[kUnits][kHalves];
        MLACHECK_UNROLL
        for (int u = 0; u < kUnits; ++u) MLACHECK_UNROLL
        for (int h = 0; h < kHalves; ++h)
          words[u][h] = device::load(device::shared(
              s_.queries[read_ % kStages][unit + u][word + 4 * (first + h) * kHeadWords + 4 * j]));
        MLACHECK_UNROLL
        for (int step = 0; step < 2; ++step) MLACHECK_UNROLL
        for (int u = 0; u < kUnits; ++u) MLACHECK_UNROLL
        for (int h = 0; h < kHalves; ++h) {
          device::FragmentB heads;
          heads.set({{words[u][h].word[2 * step], words[u][h].word[2 * step + 1]}});
          MLACHECK_UNROLL
          for (int m = 0; m < 2; ++m)
            device::mma_m16n8k16<E>(dot[u][h][m], keys_[m][2 * j + step], heads);
        }
      }
      MLACHECK_UNROLL
      for (int u = 0; u < kUnits; ++u) {
        const device::Floats4 weights =
            device::load(device::shared(s_.weights[read_ % kStages][t][unit + u]));
        MLACHECK_UNROLL
        for (int h = 0; h < kHalves; ++h)
          add_tile(dot[u][h], weights, first + h, left - kUnitHeads * u, v[u]);
      }
    }
    MLACHECK_UNROLL
    for (int u = 0; u < kUnits; ++u) MLACHECK_UNROLL
    for (int k = 0; k < 4; ++k) sum[k] = device::add(sum[k], v[u][k]);
  }

  // Tile i of a unit.
  MLACHECK_DEVICE_FN void add_tile(device::Accumulator (&dot)[2], const device::Floats4& weights,
                                   int i, std::int32_t left, float (&v)[4]) const {
    MLACHECK_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
      const float weight = weights.value[i + 2 * upper];
      // An absent head counts for nothing: a key's infinity times its zeros would be NaN.
      const bool present =
          4 * i + kUnitHeads / 2 * upper < left - static_cast<std::int32_t>(lane_ % 4);
      MLACHECK_UNROLL
      for (int k = 0; k < 4; ++k) {
        const float r = device::maximum(dot[k / 2][k % 2 * 2 + upper], 0.0f);
        const float next = i + upper == 0 ? device::multiply(weight, r)
                                          : device::fused_multiply_add(weight, r, v[k]);
        v[k] = present ? next : v[k];
      }
    }
  }

  // The warp's keys lie outside the row's range.
  MLACHECK_DEVICE_FN void mask(std::uint32_t row) const {
    if (a_.masks) write(row, lane_, kOutside);
  }
  MLACHECK_DEVICE_FN void write(std::uint32_t row, unsigned k, float score) const {
    if (my_key_ + k < a_.key_count)
      device::store(a_.scores + row * a_.score_stride + (my_key_ + k), score);
  }

  const IndexScoresArguments& a_;
  Shared& s_;
  unsigned warp_;
  unsigned lane_;
  std::uint32_t my_key_ = 0;   // the warp's first
  std::uint32_t present_ = 0;  // which of its keys exist

 private:
  MLACHECK_DEVICE_FN bool stays() const { return Shared::kMayStay && queries_stay(a_, s_); }

  unsigned read_ = 0;  // stages
  device::FragmentA keys_[2][2 * kChunks];
};

}  // namespace mlacheck::kernels
