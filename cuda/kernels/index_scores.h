#pragma once

#include "cuda/kernels/index_scorer.h"

namespace mlacheck::kernels {

// index_scores for f16 and bf16 queries and keys of 128 dims, any number of heads (index_scorer.h),
// where rows share a load of the keys: for many tokens, whose products take longer than the keys.
template <device::Element E>
class IndexScores : IndexScorer<E, IndexScoresShared> {
  using Base = IndexScorer<E, IndexScoresShared>;
  using Base::a_;
  using Base::kChunks;
  using Base::lane_;
  using Base::my_key_;
  using Base::present_;
  using Base::s_;
  using Base::warp_;

 public:
  using Base::Base;

  MLACHECK_DEVICE_FN void run() {
    MLACHECK_ROLLED
    for (std::uint32_t i = device::block_index(); i < a_.items; i += device::grid_blocks())
      score(IndexItem(a_, i));
  }

 private:
  MLACHECK_DEVICE_FN void score(const IndexItem& item) {
    my_key_ = item.first_key + warp_ * kKeysOfWarp;
    const IndexRow own = index_row(a_, item, lane_);
    if (!device::any(own.reaches(item.first_key, a_.warps * kKeysOfWarp))) {
      MLACHECK_ROLLED
      for (std::uint32_t r = 0; r < item.rows; ++r) this->mask(item.first_row + r);
      return;
    }
    device::sync_warp();  // the rows of the item before are read
    device::store(device::shared(s_.rows[warp_][lane_]), own);
    device::sync_warp();
    std::uint32_t r = 0;
    MLACHECK_ROLLED
    do {
      // The keys stay for as many rows as share them.
      std::uint32_t first = r;
      while (first < item.rows && !is_mine(row_of(first))) ++first;
      const bool wanted = first < item.rows;
      const std::int32_t request = wanted ? row_of(first).request : 0;
      const IndexRow row_of_lane = row_of(lane_);
      const std::uint32_t shared =
          device::ballot(is_mine(row_of_lane) && row_of_lane.request == request);
      load_keys(request, wanted);
      MLACHECK_ROLLED
      for (; r < item.rows; ++r) {
        if ((shared >> r & 1) != 0) {
          this->score_row(item.first_row + r, [&] { return row_of(r); });
        } else {
          const IndexRow row = row_of(r);
          if (is_mine(row)) break;
          this->mask(item.first_row + r);
          if (row.reaches(my_key_ - warp_ * kKeysOfWarp, a_.warps * kKeysOfWarp)) this->pass_row();
        }
      }
    } while (r < item.rows);
  }

  MLACHECK_DEVICE_FN bool is_mine(const IndexRow& row) const {
    return row.reaches(my_key_, kKeysOfWarp);
  }
  MLACHECK_DEVICE_FN IndexRow row_of(std::uint32_t r) const {
    return device::load(device::shared(s_.rows[warp_][r]));
  }

  // The warp's keys, straight from global memory.
  MLACHECK_DEVICE_FN void load_keys(std::int32_t request, bool wanted) {
    const std::uint32_t key = my_key_ + lane_;
    typename Base::Place place;
    if (wanted && key < a_.key_count) place = this->place_of(key, request);
    present_ = device::ballot(place.present);
    const auto low = static_cast<std::uint32_t>(place.offset);
    const auto high = static_cast<std::int32_t>(place.offset >> 32);
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
        for (int j = 0; j < kChunks; ++j) words[half][j] = device::load(from + 4 * j);
      }
      this->set_keys(m, words);
    }
  }
};

// The threads of a block, one on an SM: warps that hold keys, and a group of four of which one
// feeds them. What registers the group gives, the others take.
struct IndexScoresBlock {
  static constexpr unsigned kThreads = (kMostIndexWarps + 4) * device::kWarpSize;
  static constexpr unsigned kRegisters = 65'536 / kThreads / 8 * 8;  // of each thread at the start
  static constexpr unsigned kOfKeys = 112, kOfQueries = 32;
  static_assert(kMostIndexWarps * kOfKeys + 4 * kOfQueries <= (kMostIndexWarps + 4) * kRegisters,
                "more than there are are waited for forever");
};

template <device::Element E>
MLACHECK_KERNEL(IndexScoresBlock::kThreads, 1)
index_scores(const IndexScoresArguments arguments) {
  IndexScoresShared& shared = device::shared_memory<IndexScoresShared>();
  if (device::thread_index() == 0) {
    initialise_barriers(shared, arguments.warps);
    device::publish_barriers();
  }
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const unsigned warp = device::warp_index();
  if (warp < kMostIndexWarps) {
    device::take_registers<IndexScoresBlock::kOfKeys>();
    if (warp < arguments.warps) IndexScores<E>(arguments, shared, warp).run();
  } else {
    device::give_registers<IndexScoresBlock::kOfQueries>();
    if (warp == kMostIndexWarps) IndexQueries<IndexScoresShared>(arguments, shared).run();
  }
}

}  // namespace mlacheck::kernels
