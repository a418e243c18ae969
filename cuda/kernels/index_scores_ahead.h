#pragma once

#include "cuda/kernels/index_scorer.h"

namespace mlacheck::kernels {

struct IndexAheadShared {
  static constexpr unsigned kStages = 4;
  static constexpr bool kMayStay = true;
  static constexpr int kUnits = 2, kHalves = 2;
  device::Words4 queries[kStages][2][2 * kHalfWords];  // as in IndexScoresShared: 33,792 bytes
  device::Words4 keys[kMostAheadWarps][kKeysOfWarp * kHeadWords];  // on their way: 65,536
  device::Floats4 weights[kStages][4][2];
  device::Barrier arrived[kStages];
  device::Barrier consumed[kStages];
  device::Barrier fetched[kMostAheadWarps];
};
static_assert(sizeof(IndexAheadShared) <= device::kSharedMemoryLimit);

// index_scores where each row loads the keys for itself (index_scorer.h): for few tokens, which
// take as long as the keys do to come. So keys are always on their way, as many as there is room
// for: once a warp has its keys out of shared memory, it sends for those of its next item. Copies
// read whole rows, which memory likes better than what the lanes of a fragment hold.
//
// The first keys are sent for before it is known whether they stand in the row's range; where no
// block table says where they lie, to the L2 cache, before the kernel before has ended.
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

 public:
  using Base::Base;

  // Before the kernel before has ended.
  MLACHECK_DEVICE_FN void prefetch() {
    if (a_.block_table != nullptr || device::block_index() >= a_.items) return;
    Item item;
    item.at = IndexItem(a_, device::block_index());
    coming_ = keys_in_page(item);
    if (coming_.together && lane_ == 0)
      device::prefetch(coming_.from, kKeysOfWarp * kIndexRowBytes);
  }

  MLACHECK_DEVICE_FN void run() {
    std::uint32_t i = device::block_index();
    if (i >= a_.items) return;
    Item item;
    item.at = IndexItem(a_, i);
    if (a_.block_table != nullptr) {
      const std::uint32_t row = item.at.first_row;
      item.block = block_of(item.at, a_.request != nullptr ? device::load(a_.request + row) : 0);
      item.row = index_row(a_, item.at, 0);
    }
    if (!coming_.together) coming_ = keys_of(item);
    send();
    if (a_.block_table == nullptr) item.row = index_row(a_, item.at, 0);
    const std::uint32_t step = device::grid_blocks();
    Item next = look_at(i + step, item);
    MLACHECK_ROLLED
    for (; i < a_.items; i += step) {
      Keys keys;
      if (next.row.reaches(first_of(next.at), kKeysOfWarp)) keys = keys_of(next);
      const Item after = look_at(i + 2 * step, next);
      if (coming_.wanted) {
        device::wait(device::shared(s_.fetched[warp_]), parity_);
        parity_ ^= 1;
        take_keys();
      }
      coming_ = keys;
      send();
      score(item);
      item = next;
      next = after;
    }
  }

 private:
  // An item, and what must be read to know where the warp's keys of it lie.
  struct Item {
    IndexItem at;
    IndexRow row;
    std::int32_t block = 0;  // the page of the last key, where there is a block table
  };
  // The warp's keys of an item.
  struct Keys {
    const std::byte* from = nullptr;  // the lane's; where all lie together, the first
    std::uint32_t present = 0;        // bit k: key k exists
    bool wanted = false;              // there are any that can have a score
    bool together = false;            // one copy takes them all
  };

  MLACHECK_DEVICE_FN std::uint32_t first_of(const IndexItem& item) const {
    return item.first_key + warp_ * kKeysOfWarp;
  }

  // What it loads is not used until the item's turn has come, unless the row is another.
  MLACHECK_DEVICE_FN Item look_at(std::uint32_t number, const Item& before) const {
    Item item;
    if (number >= a_.items) return item;
    item.at = IndexItem(a_, number);
    item.row = item.at.first_row == before.at.first_row ? before.row : index_row(a_, item.at, 0);
    if (a_.block_table != nullptr && item.row.reaches(first_of(item.at), kKeysOfWarp))
      item.block = block_of(item.at, item.row.request);
    return item;
  }

  MLACHECK_DEVICE_FN std::int32_t block_of(const IndexItem& item, std::int32_t request) const {
    const std::uint32_t last = first_of(item) + kKeysOfWarp - 1;
    if (last >= a_.key_count) return -1;
    return device::load(a_.block_table + request * a_.block_table_stride +
                        a_.page_size.quotient(last));
  }

  // In whatever range of the row.
  MLACHECK_DEVICE_FN Keys keys_of(const Item& item) const {
    Keys keys = keys_in_page(item);
    const std::uint32_t key = first_of(item.at) + lane_;
    if (keys.together || first_of(item.at) >= a_.key_count) return keys;
    keys.wanted = true;
    typename Base::Place place;
    if (key < a_.key_count) place = this->place_of(key, item.row.request);
    keys.present = device::ballot(place.present);
    keys.from = place.present ? a_.keys + place.offset : device::zeros();
    return keys;
  }
  // Where all lie in one page and exist, as most often; else none. Loads nothing.
  MLACHECK_DEVICE_FN Keys keys_in_page(const Item& item) const {
    const std::uint32_t last = first_of(item.at) + kKeysOfWarp - 1;
    const std::uint32_t page = a_.page_size.quotient(last);
    const std::uint32_t row = last - page * a_.page_size.divisor();
    if (last >= a_.key_count || row < kKeysOfWarp - 1 || a_.row_stride != kIndexRowBytes) return {};
    const typename Base::Place place =
        this->place_in(a_.block_table != nullptr ? item.block : std::int64_t{page}, row);
    if (!place.present) return {};
    return {a_.keys + (place.offset - (kKeysOfWarp - 1) * kIndexRowBytes), ~std::uint32_t{0}, true,
            true};
  }

  // To where take_keys has taken from.
  MLACHECK_DEVICE_FN void send() {
    if (!coming_.wanted) return;
    const device::SharedPointer<device::Barrier> fetched = device::shared(s_.fetched[warp_]);
    const device::SharedPointer<std::byte> to =
        device::shared(s_.keys[warp_][lane_ * kHeadWords]).template as<std::byte>();
    device::sync_warp();
    if (!coming_.together)
      device::copy_bulk_once(to, coming_.from, kIndexRowBytes, fetched);
    else if (lane_ == 0)
      device::copy_bulk_once(to, coming_.from, kKeysOfWarp * kIndexRowBytes, fetched);
    device::arrive_warp_expecting(fetched, kKeysOfWarp * kIndexRowBytes);
  }

  // set_keys uses every word: a load of which nothing has used the value may still be on its way
  // when the next copy arrives.
  MLACHECK_DEVICE_FN void take_keys() {
    present_ = coming_.present;
    MLACHECK_UNROLL
    for (int m = 0; m < 2; ++m) {
      device::Words4 words[2][kChunks];
      MLACHECK_UNROLL
      for (int half = 0; half < 2; ++half) MLACHECK_UNROLL
      for (int j = 0; j < kChunks; ++j) {
        const unsigned k = 16 * m + 8 * half + lane_ / 4;
        words[half][j] =
            device::load(device::shared(s_.keys[warp_][k * kHeadWords + 4 * j + lane_ % 4]));
      }
      this->set_keys(m, words);
    }
  }

  MLACHECK_DEVICE_FN void score(const Item& item) {
    my_key_ = first_of(item.at);
    if (item.row.reaches(my_key_, kKeysOfWarp))
      return this->score_row(item.at.first_row, [&] { return item.row; });
    this->mask(item.at.first_row);
    if (item.row.reaches(item.at.first_key, a_.warps * kKeysOfWarp)) this->pass_row();
  }

  Keys coming_;
  unsigned parity_ = 0;  // of the phase in which they come
};

// A warp that feeds the others comes after them.
template <device::Element E>
MLACHECK_KERNEL((kMostAheadWarps + 1) * device::kWarpSize, 1)
index_scores_ahead(const IndexScoresArguments arguments) {
  IndexAheadShared& shared = device::shared_memory<IndexAheadShared>();
  const unsigned warp = device::warp_index();
  IndexScoresAhead<E> scores(arguments, shared, warp);
  if (warp < arguments.warps) {
    scores.prefetch();
  } else if (device::lane_index() == 0) {
    initialise_barriers(shared, arguments.warps);
    MLACHECK_UNROLL
    for (unsigned i = 0; i < kMostAheadWarps; ++i)
      device::initialise_for_warps(device::shared(shared.fetched[i]), 1);
    device::publish_barriers();
  }
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  if (warp < arguments.warps)
    scores.run();
  else
    IndexQueries<IndexAheadShared>(arguments, shared).run();
}

}  // namespace mlacheck::kernels
