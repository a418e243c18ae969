#pragma once

#include "cuda/kernels/index_scorer.h"

namespace mlacheck::kernels {

struct IndexAheadShared {
  static constexpr unsigned kStages = 4, kSlots = kMostAheadWarps;
  static constexpr bool kMayStay = true;
  device::Words4 queries[kStages][2][2 * kHalfWords];     // as in IndexScoresShared: 33,792 bytes
  device::Words4 keys[kSlots][kKeysOfWarp * kHeadWords];  // on their way: 65,536
  device::Floats4 weights[kStages][4][2];
  std::uint32_t present[kSlots];  // bit k: key k exists
  device::Barrier arrived[kStages];
  device::Barrier consumed[kStages];
  device::Barrier fetched[kSlots];
};
static_assert(sizeof(IndexAheadShared) <= device::kSharedMemoryLimit);

// index_scores where each row loads the keys for itself (index_scorer.h): for few tokens, which take
// as long as the keys do to come. So keys are always on their way, as many as there is room for: a
// warp has slots in shared memory, and once it has the keys out of one it sends for those of its next
// item. Copies read whole rows, which memory likes better than what the lanes of a fragment hold.
//
// The first keys are sent for before it is known whether they stand in the row's range.
template <device::Element E>
class IndexScoresAhead : IndexScorer<E, IndexAheadShared> {
  using Base = IndexScorer<E, IndexAheadShared>;
  using Base::a_;
  using Base::kChunks;
  using Base::lane_;
  using Base::my_key_;
  using Base::present_;
  using Base::s_;
  using Base::warp_;
  static constexpr unsigned kSlots = IndexAheadShared::kSlots;

 public:
  using Base::Base;

  MLACHECK_DEVICE_FN void run() {
    const std::uint32_t step = device::grid_blocks();
    std::uint32_t ahead = device::block_index();  // the item whose keys are sent for next
    MLACHECK_ROLLED
    for (unsigned slot = warp_; slot < kSlots; slot += a_.warps, ahead += step)
      send_for(KeysOfItem(*this, ahead, true), slot);
    unsigned slot = warp_;
    MLACHECK_ROLLED
    for (std::uint32_t i = device::block_index(); i < a_.items; i += step, ahead += step) {
      const KeysOfItem next(*this, ahead, false);
      if ((coming_ >> slot & 1) != 0) {
        device::wait(device::shared(s_.fetched[slot]), parities_ >> slot & 1);
        parities_ ^= 1u << slot;
        take_keys(slot);
      }
      send_for(next, slot);
      slot = slot + a_.warps < kSlots ? slot + a_.warps : warp_;
      score(IndexItem(a_, i));
    }
  }

 private:
  MLACHECK_DEVICE_FN void score(const IndexItem& item) {
    my_key_ = item.first_key + warp_ * kKeysOfWarp;
    become_row_of(item);
    if (row_.reaches(my_key_, kKeysOfWarp))
      return this->score_row(item.first_row, [&] { return row_; });
    this->mask(item.first_row);
    if (row_.reaches(item.first_key, a_.warps * kKeysOfWarp)) this->pass_row();
  }

  MLACHECK_DEVICE_FN void become_row_of(const IndexItem& item) {
    if (item.first_row == row_number_) return;
    row_number_ = item.first_row;
    row_ = index_row(a_, item, 0);
  }

  // The warp's keys of an item.
  struct KeysOfItem {
    const std::byte* from = nullptr;  // the lane's
    std::uint32_t present = 0;
    bool wanted = false;    // there are any that can have a score
    bool together = false;  // one copy takes them all

    MLACHECK_DEVICE_FN KeysOfItem(IndexScoresAhead& warp, std::uint32_t number, bool of_any_range) {
      const IndexScoresArguments& a = warp.a_;
      if (number >= a.items) return;
      const IndexItem item(a, number);
      const std::uint32_t first = item.first_key + warp.warp_ * kKeysOfWarp;
      const std::uint32_t key = first + warp.lane_;
      warp.become_row_of(item);
      wanted = of_any_range ? first < a.key_count : warp.row_.reaches(first, kKeysOfWarp);
      if (!wanted) return;
      typename Base::Place place;
      if (key < a.key_count) place = warp.place_of(key, warp.row_.request);
      present = device::ballot(place.present);
      from = place.present ? a.keys + place.offset : device::zeros();
      const std::int64_t begin = place.offset - warp.lane_ * kIndexRowBytes;
      const auto low = static_cast<std::uint32_t>(begin);
      const auto high = static_cast<std::uint32_t>(begin >> 32);
      const std::uint32_t first_low = device::shuffle(low, 0),
                          first_high = device::shuffle(high, 0);
      together = !device::any(!place.present || low != first_low || high != first_high);
    }
  };

  // Into a slot of which all lanes have taken what was there.
  MLACHECK_DEVICE_FN void send_for(const KeysOfItem& keys, unsigned slot) {
    coming_ &= ~(1u << slot);
    if (!keys.wanted) return;
    coming_ |= 1u << slot;
    const device::SharedPointer<device::Barrier> fetched = device::shared(s_.fetched[slot]);
    const device::SharedPointer<std::byte> to =
        device::shared(s_.keys[slot][lane_ * kHeadWords]).template as<std::byte>();
    device::sync_warp();
    if (!keys.together)
      device::copy_bulk_once(to, keys.from, kIndexRowBytes, fetched);
    else if (lane_ == 0)
      device::copy_bulk_once(to, keys.from, kKeysOfWarp * kIndexRowBytes, fetched);
    if (lane_ == 0) device::store(device::shared(s_.present[slot]), keys.present);
    device::arrive_warp_expecting(fetched, kKeysOfWarp * kIndexRowBytes);
  }

  MLACHECK_DEVICE_FN void take_keys(unsigned slot) {
    present_ = device::load(device::shared(s_.present[slot]));
    MLACHECK_UNROLL
    for (int m = 0; m < 2; ++m) {
      device::Words4 words[2][kChunks];
      MLACHECK_UNROLL
      for (int half = 0; half < 2; ++half) MLACHECK_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        const unsigned k = 16 * m + 8 * half + lane_ / 4;
        words[half][j] =
            device::load(device::shared(s_.keys[slot][k * kHeadWords + 4 * j + lane_ % 4]));
      }
      this->set_keys(m, words);
    }
  }

  IndexRow row_;  // of the item that was last looked at
  std::uint32_t row_number_ = ~std::uint32_t{0};
  unsigned coming_ = 0;    // bit i: slot i was sent for
  unsigned parities_ = 0;  // bit i: of its barrier's phase
};

// A warp that feeds the others comes after them.
template <device::Element E>
MLACHECK_KERNEL((kMostAheadWarps + 1) * device::kWarpSize, 1)
index_scores_ahead(const IndexScoresArguments arguments) {
  IndexAheadShared& shared = device::shared_memory<IndexAheadShared>();
  if (device::thread_index() == 0) {
    initialise_barriers(shared, arguments.warps);
    MLACHECK_UNROLL
    for (unsigned i = 0; i < IndexAheadShared::kSlots; ++i)
      device::initialise_for_warps(device::shared(shared.fetched[i]), 1);
    device::publish_barriers();
  }
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const unsigned warp = device::warp_index();
  if (warp < arguments.warps)
    IndexScoresAhead<E>(arguments, shared, warp).run();
  else
    IndexQueries<IndexAheadShared>(arguments, shared).run();
}

}  // namespace mlacheck::kernels
