#pragma once

#include "cuda/kernels/top_k_collect.h"

namespace mlacheck::kernels {

// The block's own list.
struct SharedList {
  TopK::Shared& shared;

  MLACHECK_DEVICE_FN void operator()(std::uint32_t number, float score, std::uint32_t place) const {
    device::store(device::shared(shared.score[TopK::home(number)]), score);
    device::store(device::shared(shared.place[TopK::home(number)]), place);
  }
  // The thread's part.
  template <class Rules>
  MLACHECK_DEVICE_FN HeldRanks held(std::uint32_t candidates) const {
    HeldRanks held;
    MLACHECK_UNROLL
    for (unsigned j = 0; j < TopK::kPerThread; ++j) {
      const std::uint32_t number = device::thread_index() * TopK::kPerThread + j;
      if (number < candidates)
        held.rank[j] =
            rank_of<Rules>(device::load(device::shared(shared.score[TopK::home(number)])),
                           device::load(device::shared(shared.place[TopK::home(number)])));
    }
    return held;
  }
};

// Before anything else; the block must meet after it.
MLACHECK_DEVICE_FN void clear(TopK::Scratch& s) {
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i)
    device::store(device::shared(s.bins[ThreadBins::number(i)]), 0);
  if (device::thread_index() != 0) return;
  device::store(device::shared(s.largest), 0);
  device::store(device::shared(s.largest_inverse), 0);
}

// A row that has no more scores than are asked for.
MLACHECK_DEVICE_FN void write_all(const TopKRow& row, std::uint32_t k, std::int32_t* selected) {
  for (std::uint32_t i = device::thread_index(); i < k; i += TopK::kThreads)
    device::store(selected + i, i < row.length ? row.first + static_cast<std::int32_t>(i) : -1);
}

// The k-th largest of the candidates that threads hold.
template <class Rules>
MLACHECK_DEVICE_FN Rank last_selected(TopK::Scratch& s, const HeldRanks& held, std::uint32_t k,
                                      std::uint32_t length) {
  // The digits begin where the keys begin to differ.
  std::uint32_t largest = 0, largest_inverse = 0;
  held([&](Rank rank, bool counts) {
    const std::uint32_t key = key_of(rank), inverse = counts ? ~key : 0;
    largest = largest > key ? largest : key;
    largest_inverse = largest_inverse > inverse ? largest_inverse : inverse;
  });
  MLACHECK_UNROLL
  for (unsigned distance = 1; distance < device::kWarpSize; distance *= 2) {
    const std::uint32_t other = device::shuffle_xor(largest, distance);
    const std::uint32_t inverse = device::shuffle_xor(largest_inverse, distance);
    largest = largest > other ? largest : other;
    largest_inverse = largest_inverse > inverse ? largest_inverse : inverse;
  }
  if (device::lane_index() == 0) {
    device::atomic_maximum(device::shared(s.largest), largest);
    device::atomic_maximum(device::shared(s.largest_inverse), largest_inverse);
  }
  device::sync_block();
  const std::uint32_t least = ~device::load(device::shared(s.largest_inverse));
  const std::uint32_t range = device::load(device::shared(s.largest)) - least;
  return find_threshold<Rules>(s, held, least, device::bit_width(range), k, 0, length);
}

// Selects from the candidates that threads hold, in order.
template <class Rules>
MLACHECK_DEVICE_FN void select_candidates(const TopKArguments& a, TopK::Scratch& s,
                                          const TopKRow& row, const HeldRanks& held,
                                          std::uint32_t candidates, std::int32_t* selected) {
  const Rank least = candidates == a.k ? 0 : last_selected<Rules>(s, held, a.k, row.length);
  std::uint32_t own = 0;
  held([&](Rank rank, bool counts) { own += counts & (rank >= least) ? 1 : 0; });
  std::uint32_t position = sum_before_thread<Rules>(s, own);
  held([&](Rank rank, bool counts) {
    if (!counts | (rank < least)) return;
    device::store(selected + position,
                  row.first + static_cast<std::int32_t>(place_of<Rules>(rank)));
    ++position;
  });
}

// Whether the guess was wrong: too few candidates, or more than fit.
MLACHECK_DEVICE_FN bool is_wrong(const TopKArguments& a, std::uint32_t candidates) {
  return candidates < a.k || candidates > TopK::kCapacity;
}

// Then: the exact threshold by the whole row, and the candidates from there on.
template <class Rules>
MLACHECK_DEVICE_FN void select_exactly(const TopKArguments& a, TopK::Shared& shared,
                                       const TopKRow& row, std::int32_t* selected) {
  TopK::Scratch& s = shared.scratch;
  const Rank threshold =
      find_threshold<Rules>(s, RanksOfRow<Rules>{row}, 0, 32, a.k, 0, row.length);
  const SharedList list{shared};
  const std::uint32_t candidates =
      collect<Rules>(s, row, row.load_tile(0, row.vectors), 0, row.vectors, threshold, list);
  device::sync_block();
  select_candidates<Rules>(a, s, row, list.held<Rules>(candidates), candidates, selected);
}

}  // namespace mlacheck::kernels
