#pragma once

#include "cuda/kernels/top_k_collect.h"

namespace mlacheck::kernels {

// The block's own list.
struct SharedList {
  TopK::Shared& shared;

  MLACHECK_DEVICE_FN void operator()(std::uint32_t number, float score, std::uint32_t place) const {
    device::store(device::shared(shared.score[number]), score);
    device::store(device::shared(shared.place[number]), place);
  }
  MLACHECK_DEVICE_FN Candidate candidate(std::uint32_t number) const {
    return {device::load(device::shared(shared.score[number]).as<std::uint32_t>()),
            device::load(device::shared(shared.place[number]))};
  }
  // Once it is known how many there are: what is read together is written. The block must meet
  // before they are held.
  MLACHECK_DEVICE_FN void end(std::uint32_t candidates) const {
    const std::uint32_t number = candidates + device::thread_index();
    if (device::thread_index() < HeldRanks::kHalf && number < TopK::kCapacity)
      (*this)(number, 0, 0);
  }
  // The thread's part: as many together as there must be.
  template <class Rules>
  MLACHECK_DEVICE_FN HeldRanks held(std::uint32_t candidates) const {
    static_assert(HeldRanks::kHalf == 4);  // of a vector
    HeldRanks held;
    held.both = candidates > TopK::kCapacity / 2;
    const std::uint32_t first = device::thread_index() * HeldRanks::kHalf * (held.both ? 2 : 1);
    MLACHECK_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t number = first + half * HeldRanks::kHalf;
      if (number >= candidates || (half == 1 && !held.both)) continue;
      const auto score = device::load(device::shared(shared.score[number]).as<device::Floats4>());
      const auto place = device::load(device::shared(shared.place[number]).as<device::Words4>());
      MLACHECK_UNROLL
      for (unsigned i = 0; i < HeldRanks::kHalf; ++i)
        if (number + i < candidates)
          held.rank[half][i] = rank_of<Rules>(score.value[i], place.word[i]);
    }
    return held;
  }
};

MLACHECK_DEVICE_FN void clear_bins(TopK::Scratch& s) {
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i)
    device::store(device::shared(s.bins[ThreadBins::number(i)]), 0);
}

// Before anything else; the block must meet after it.
MLACHECK_DEVICE_FN void clear(TopK::Scratch& s) {
  clear_bins(s);
  if (device::thread_index() != 0) return;
  device::store(device::shared(s.largest), 0);
  device::store(device::shared(s.largest_inverse), 0);
  device::store(device::shared(s.few), 0);
}

// Of the block's row.
MLACHECK_DEVICE_FN std::int32_t* selected_of_row(const TopKArguments& a) {
  return a.selected + std::int64_t{device::block_index()} * a.k;
}

// A row that has no more scores than are asked for.
MLACHECK_DEVICE_FN void write_all(const TopKArguments& a, const TopKRow& row) {
  for (std::uint32_t i = device::thread_index(); i < a.k; i += TopK::kThreads)
    device::store(selected_of_row(a) + i,
                  i < row.length ? row.first + static_cast<std::int32_t>(i) : -1);
}

// The m-th largest of the few ranks in a bin; the block meets once.
MLACHECK_DEVICE_FN Rank among_few(TopK::Scratch& s, const HeldRanks& held, const Digits& digits,
                                  const FoundBin& bin) {
  held([&](Rank rank, bool counts) {
    if (!counts | (digits.of(key_of(rank)) != bin.value)) return;
    const std::uint32_t i = device::atomic_add(device::shared(s.few), 1);
    device::store(device::shared(s.ranks[i]), {static_cast<std::uint32_t>(rank), key_of(rank)});
  });
  device::sync_block();
  const unsigned lane = device::lane_index();
  device::Words2 own = {};
  if (lane < bin.in_bin) own = device::load(device::shared(s.ranks[lane]));
  const Rank rank = Rank{own.word[1]} << 32 | own.word[0];
  std::uint32_t above = 0;
  MLACHECK_ROLLED
  for (unsigned i = 0; i < bin.in_bin; ++i) {
    const Rank other =
        Rank{device::shuffle(own.word[1], i)} << 32 | device::shuffle(own.word[0], i);
    above += other > rank ? 1 : 0;
  }
  const auto found = static_cast<unsigned>(
      device::lowest_one(device::ballot(lane < bin.in_bin && above == bin.remaining - 1)));
  return Rank{device::shuffle(own.word[1], found)} << 32 | device::shuffle(own.word[0], found);
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
  largest = device::maximum_of_lanes(largest);
  largest_inverse = device::maximum_of_lanes(largest_inverse);
  if (device::lane_index() == 0) {
    device::atomic_maximum(device::shared(s.largest), largest);
    device::atomic_maximum(device::shared(s.largest_inverse), largest_inverse);
  }
  device::sync_block();
  const std::uint32_t least = ~device::load(device::shared(s.largest_inverse));
  const int bits = device::bit_width(device::load(device::shared(s.largest)) - least);
  const Digits digits(least, bits);
  const FoundBin bin = find_digit<Rules>(
      s, [&](auto visit) { held([&](Rank rank, bool counts) { visit(key_of(rank), counts); }); },
      digits, k);
  if (bin.in_bin <= device::kWarpSize) return among_few(s, held, digits, bin);
  return find_threshold<Rules>(s, held, least, bits, k, 0, length);
}

// Selects from the candidates that threads hold, in order.
template <class Rules>
MLACHECK_DEVICE_FN void select_candidates(const TopKArguments& a, TopK::Scratch& s,
                                          const TopKRow& row, const HeldRanks& held,
                                          std::uint32_t candidates) {
  const Rank least = candidates == a.k ? 0 : last_selected<Rules>(s, held, a.k, row.length);
  std::uint32_t own = 0;
  held([&](Rank rank, bool counts) { own += counts & (rank >= least) ? 1 : 0; });
  std::int32_t* to = selected_of_row(a) + sum_before_thread<Rules>(s, own);
  held([&](Rank rank, bool counts) {
    if (!counts | (rank < least)) return;
    device::store(to, row.first + static_cast<std::int32_t>(place_of<Rules>(rank)));
    ++to;
  });
}

// Whether the guess was wrong: too few candidates, or more than fit.
MLACHECK_DEVICE_FN bool is_wrong(const TopKArguments& a, std::uint32_t candidates) {
  return candidates < a.k || candidates > TopK::kCapacity;
}

// Then: the exact threshold by the whole row, and the candidates from there on.
template <class Rules>
MLACHECK_DEVICE_FN void select_exactly(const TopKArguments& a, TopK::Shared& shared,
                                       const TopKRow& row) {
  TopK::Scratch& s = shared.scratch;
  const Rank threshold =
      find_threshold<Rules>(s, RanksOfRow<Rules>{row}, 0, 32, a.k, 0, row.length);
  const SharedList list{shared};
  const std::uint32_t candidates =
      collect<Rules>(s, row, row.load_tile(0, row.vectors), 0, row.vectors, threshold, list);
  list.end(candidates);
  device::sync_block();
  select_candidates<Rules>(a, s, row, list.held<Rules>(candidates), candidates);
}

}  // namespace mlacheck::kernels
