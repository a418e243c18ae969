#pragma once

#include <limits>

#include "cuda/device/matrix.h"
#include "cuda/device/register.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"
#include "cuda/kernels/index_scores_queries.h"

namespace mlacheck::kernels {

// index_scores for f16 and bf16 queries and keys of 128 dims, any number of heads, one kernel for
// decode and prefill. A warp holds 32 keys in 64 registers; the queries stream past through shared
// memory. A score depends on its query, its key and the weights alone. Its operations, in order:
//
//   dot_h   8 tensor-core steps. Step 2 j + i takes the dims 32 j + 8 t + 4 i ... + 3, t = 0 ... 3:
//           so the 16 bytes that lane t loads of a key, or of a head, serve two steps
//   r_h     dot_h if it is > 0 or NaN, else +0
//   v[u,t]  of the heads of unit u, 16 u ... 16 u + 15, those congruent to t modulo 4:
//           fma(w r of 16 u + t + 12, fma(... + 4, fma(... + 8, round(w r of 16 u + t))))
//   s[t]    v[0,t] + v[1,t] + ... in ascending u
//   score   (s[0] + s[1]) + (s[2] + s[3])
//
// so a product passes at most ceil(heads / 16) + 4 roundings after its own. Heads past the last count
// as +0. A key outside its row's range, or whose page or slot does not exist, scores -inf; of the
// latter nothing is read.
template <device::Element E>
class IndexScores {
  static constexpr float kOutside = -std::numeric_limits<float>::infinity();
  static constexpr int kChunks = kIndexDim / 32;  // of 32 dims: two steps

 public:
  MLACHECK_DEVICE_FN IndexScores(const IndexScoresArguments& arguments, IndexScoresShared& shared)
      : a_(arguments),
        s_(shared),
        warp_(device::warp_index()),
        lane_(device::lane_index()),
        queries_(arguments, shared, warp_, lane_) {}

  MLACHECK_DEVICE_FN void run() {
    std::uint32_t i = device::block_index();
    if (i >= a_.items) return;
    announce(i);
    queries_.fill_ahead();
    MLACHECK_ROLLED
    for (; i < a_.items; i += device::grid_blocks()) {
      odd_ ^= 1;
      if (a_.items - i > device::grid_blocks()) announce(i + device::grid_blocks());
      odd_ ^= 1;
      score(IndexItem(a_, i));
      odd_ ^= 1;
      device::sync_warp();  // before the rows of the item after the next
    }
  }

 private:
  // Of an item to come: its rows, and to the ring those that have keys in the block.
  MLACHECK_DEVICE_FN void announce(std::uint32_t number) {
    const IndexItem item(a_, number);
    queries_.add(item.first_row, load_rows(item));
  }

  MLACHECK_DEVICE_FN void score(const IndexItem& item) {
    my_key_ = item.first_key + warp_ * kKeysOfWarp;
    std::uint32_t r = 0;
    MLACHECK_ROLLED
    do {
      // The keys stay for as many rows as share them.
      std::uint32_t first = r;
      while (first < item.rows && !is_mine(row_of(first))) ++first;
      const std::int32_t request = first < item.rows ? row_of(first).request : 0;
      load_keys(request, first < item.rows);
      bool follows = false;  // the row before was scored
      MLACHECK_ROLLED
      for (; r < item.rows; ++r) {
        const IndexRow row = row_of(r);
        if (!is_mine(row))
          write(item.first_row + r, lane_, kOutside);
        else if (row.request != request)
          break;
        if (is_mine(row) && !follows) load_weights(item.first_row + r, 0);
        follows = is_mine(row);
        if (row.reaches != 0) score_row(item.first_row + r, r, follows);
      }
    } while (r < item.rows);
  }

  MLACHECK_DEVICE_FN IndexRow row_of(std::uint32_t r) const {
    return device::load(device::shared(s_.rows[odd_][warp_][r]));
  }
  MLACHECK_DEVICE_FN static bool is_mine(const IndexRow& row) { return (row.reaches & 2) != 0; }

  // Lane r: of row r of the item. Returns which rows have keys in the block.
  MLACHECK_DEVICE_FN std::uint32_t load_rows(const IndexItem& item) {
    const std::uint32_t my_key = item.first_key + warp_ * kKeysOfWarp;
    IndexRow row = {};
    if (lane_ < item.rows) {
      const std::uint32_t t = item.first_row + lane_;
      row.end = a_.key_count;
      if (a_.key_begin != nullptr) row.begin = clamped(device::load_constant(a_.key_begin + t));
      if (a_.key_end != nullptr) row.end = clamped(device::load_constant(a_.key_end + t));
      if (a_.request != nullptr) row.request = device::load_constant(a_.request + t);
      row.reaches = (reaches(row, item.first_key, a_.warps * kKeysOfWarp) ? 1u : 0u) |
                    (reaches(row, my_key, kKeysOfWarp) ? 2u : 0u);
    }
    device::store(device::shared(s_.rows[odd_][warp_][lane_]), row);
    device::sync_warp();
    return device::ballot(row.reaches != 0);
  }
  MLACHECK_DEVICE_FN std::uint32_t clamped(std::int32_t key) const {
    const std::uint32_t k = key < 0 ? 0 : static_cast<std::uint32_t>(key);
    return k < a_.key_count ? k : a_.key_count;
  }
  MLACHECK_DEVICE_FN static bool reaches(const IndexRow& row, std::uint32_t first,
                                         std::uint32_t count) {
    const std::uint32_t from = row.begin > first ? row.begin : first;
    const std::uint32_t to = row.end < first + count ? row.end : first + count;
    return from < to;
  }

  // The warp's keys as A fragments: row r of fragment [m][] is key 16 m + r.
  MLACHECK_DEVICE_FN void load_keys(std::int32_t request, bool wanted) {
    const std::uint32_t key = my_key_ + lane_;
    std::int64_t offset = 0;
    bool present = false;
    if (wanted && key < a_.key_count) {
      const std::uint32_t page = a_.page_size.quotient(key);
      const std::uint32_t row = key - page * a_.page_size.divisor();
      std::int64_t block = page;
      if (a_.block_table != nullptr)
        block = device::load_constant(a_.block_table + request * a_.block_table_stride + page);
      present = block >= 0 && block * a_.page_size.divisor() + row < a_.slots;
      offset = block * a_.page_stride + row * a_.row_stride;
    }
    present_ = device::ballot(present);
    const auto low = static_cast<std::uint32_t>(offset);
    const auto high = static_cast<std::int32_t>(offset >> 32);
    MLACHECK_UNROLL
    for (int m = 0; m < 2; ++m) {
      device::Words4 words[2][kChunks] = {};
      MLACHECK_UNROLL
      for (int half = 0; half < 2; ++half) {
        const unsigned k = 16 * m + 8 * half + lane_ / 4;
        const std::int64_t at =
            std::int64_t{device::shuffle(high, k)} << 32 | device::shuffle(low, k);
        const auto* from = reinterpret_cast<const device::Words4*>(a_.keys + at) + lane_ % 4;
        if ((present_ >> k & 1) == 0) continue;
        MLACHECK_UNROLL
        for (int j = 0; j < kChunks; ++j) words[half][j] = device::load_constant(from + 4 * j);
      }
      MLACHECK_UNROLL
      for (int j = 0; j < kChunks; ++j) MLACHECK_UNROLL
      for (int i = 0; i < 2; ++i)
        keys_[m][2 * j + i].set({{device::own_register(words[0][j].word[2 * i]),
                                  device::own_register(words[1][j].word[2 * i]),
                                  device::own_register(words[0][j].word[2 * i + 1]),
                                  device::own_register(words[1][j].word[2 * i + 1])}});
    }
  }

  // All warps of the block see every stage; those without keys of the row let it pass.
  MLACHECK_DEVICE_FN void score_row(std::uint32_t row, std::uint32_t r, bool is_mine) {
    float sum[4] = {-0.0f, -0.0f, -0.0f, -0.0f};  // of keys g + 8 i; -0 + v is v
    float weight = 0;
    MLACHECK_ROLLED
    for (std::int32_t head = 0; head < a_.heads; head += kUnitHeads) {
      if (head % kStageHeads == 0) {
        if (is_mine) {
          weight = weights_;
          const bool last = a_.heads - head <= kStageHeads;
          load_weights(last ? row + 1 : row, last ? 0 : head + kStageHeads);
        }
        queries_.acquire();
      }
      if (is_mine) add_unit(head, weight, sum);
      if ((head + kUnitHeads) % kStageHeads == 0 || head + kUnitHeads >= a_.heads)
        queries_.release();
    }
    if (!is_mine) return;
    // Four lanes hold parts of four keys: after the exchange each has one key.
    const bool upper = (lane_ & 1) != 0, last = (lane_ & 2) != 0;
    const float first = add_pair(upper, sum[0], sum[2], 1),
                second = add_pair(upper, sum[1], sum[3], 1);
    const float score = add_pair(last, first, second, 2);
    const unsigned k = (upper ? 16 : 0) + (last ? 8 : 0) + lane_ / 4;
    const IndexRow range = row_of(r);
    const bool inside =
        my_key_ + k >= range.begin && my_key_ + k < range.end && (present_ >> k & 1) != 0;
    write(row, k, inside ? score : kOutside);
  }

  // Of a stage, one ahead: of head + i in lane i.
  MLACHECK_DEVICE_FN void load_weights(std::uint32_t row, std::int32_t head) {
    const std::int32_t mine = head + static_cast<std::int32_t>(lane_);
    weights_ = row < a_.tokens && mine < a_.heads
                   ? device::load_constant(a_.weights + std::int64_t{row} * a_.heads + mine)
                   : 0.0f;
  }

  // Two lanes hold parts of a and b: the one gets the sum of a, the other of b.
  MLACHECK_DEVICE_FN static float add_pair(bool takes_b, float a, float b, unsigned lane_mask) {
    return device::add(takes_b ? b : a, device::shuffle_xor(takes_b ? a : b, lane_mask));
  }

  // Columns 2 t and 2 t + 1 of tile i are heads 4 i + t of the lower and of the upper half.
  MLACHECK_DEVICE_FN void add_unit(std::int32_t head, float weights, float (&sum)[4]) {
    const unsigned g = lane_ / 4, t = lane_ % 4;
    device::Accumulator dot[2][2];  // [tile of heads][16 keys]
    MLACHECK_UNROLL
    for (int i = 0; i < 2; ++i) MLACHECK_UNROLL
    for (int m = 0; m < 2; ++m) dot[i][m].clear();
    MLACHECK_UNROLL
    for (int j = 0; j < kChunks; ++j) MLACHECK_UNROLL
    for (int i = 0; i < 2; ++i) {
      const device::Words4 words =
          queries_.words(head, g % 2, (g / 2 + 4 * i) * kHeadWords + 4 * j + t);
      MLACHECK_UNROLL
      for (int step = 0; step < 2; ++step) {
        device::FragmentB heads;
        heads.set({{words.word[2 * step], words.word[2 * step + 1]}});
        MLACHECK_UNROLL
        for (int m = 0; m < 2; ++m)
          device::mma_m16n8k16<E>(dot[i][m], keys_[m][2 * j + step], heads);
      }
    }
    // A key's Inf times the zeros of an absent head is NaN.
    const std::int32_t mine = head + static_cast<std::int32_t>(t);
    if (head + kUnitHeads > a_.heads) MLACHECK_UNROLL
    for (int i = 0; i < 2; ++i) MLACHECK_UNROLL
    for (int m = 0; m < 2; ++m) MLACHECK_UNROLL
    for (int k = 0; k < 4; ++k)
      if (mine + 4 * i + 8 * (k % 2) >= a_.heads) dot[i][m][k] = 0.0f;
    float weight[4];
    MLACHECK_UNROLL
    for (int h = 0; h < 4; ++h)
      weight[h] = device::shuffle(weights, head % kStageHeads + t + 4 * h);
    MLACHECK_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int m = k / 2, at = k % 2 * 2;
      float v = device::multiply(weight[0], device::maximum(dot[0][m][at], 0.0f));
      v = device::fused_multiply_add(weight[2], device::maximum(dot[0][m][at + 1], 0.0f), v);
      v = device::fused_multiply_add(weight[1], device::maximum(dot[1][m][at], 0.0f), v);
      v = device::fused_multiply_add(weight[3], device::maximum(dot[1][m][at + 1], 0.0f), v);
      sum[k] = device::add(sum[k], v);
    }
  }

  MLACHECK_DEVICE_FN void write(std::uint32_t row, unsigned k, float score) const {
    if (my_key_ + k < a_.key_count)
      device::store(a_.scores + row * a_.score_stride + (my_key_ + k), score);
  }

  const IndexScoresArguments& a_;
  IndexScoresShared& s_;
  unsigned warp_;
  unsigned lane_;
  IndexQueries queries_;
  unsigned odd_ = 0;           // which of shared.rows are the item's
  std::uint32_t my_key_ = 0;   // the warp's first
  std::uint32_t present_ = 0;  // which of its keys exist
  float weights_ = 0;
  device::FragmentA keys_[2][2 * kChunks];
};

template <device::Element E>
MLACHECK_KERNEL(kMostIndexWarps* device::kWarpSize, 2)
index_scores(const IndexScoresArguments arguments) {
  IndexScoresShared& shared = device::shared_memory<IndexScoresShared>();
  if (device::thread_index() == 0) initialise_barriers(shared, arguments.warps);
  device::sync_block();
  IndexScores<E>(arguments, shared).run();
}

}  // namespace mlacheck::kernels
