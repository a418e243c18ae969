#pragma once

#include "cuda/kernels/top_k_collect.h"

namespace mlacheck::kernels {

// Where the block lists candidates.
struct KeepInShared {
  TopK::Shared& shared;

  MLACHECK_DEVICE_FN void operator()(std::uint32_t slot, float score, std::uint32_t place) const {
    device::store(device::shared(shared.score[slot]), score);
    device::store(device::shared(shared.place[slot]), place);
  }
};

// Before anything else; the block must meet after it.
MLACHECK_DEVICE_FN void clear(TopK::Scratch& s) {
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i)
    device::store(device::shared(s.bins[ThreadBins::number(i)]), 0);
  if (device::thread_index() != 0) return;
  device::store(device::shared(s.candidates), 0);
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
MLACHECK_DEVICE_FN Rank last_selected(TopK::Scratch& s, const HeldRanks& held, std::uint32_t k) {
  // The digits begin where the keys begin to differ.
  std::uint32_t largest = 0, largest_inverse = 0;
  held([&](Rank rank) {
    const std::uint32_t key = key_of(rank);
    largest = largest > key ? largest : key;
    largest_inverse = largest_inverse > ~key ? largest_inverse : ~key;
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
  return find_threshold<Rules>(s, held, Rank{least} << 32, 32 + device::bit_width(range), k, 0);
}

// Writes the held ranks from `least` on, k of them, by ascending place. Equal parts of the row's
// length are bins; within a bin, whoever comes first in memory, the lower places are counted.
template <class Rules>
MLACHECK_DEVICE_FN void write_ascending(TopK::Shared& shared, const TopKRow& row,
                                        const HeldRanks& held, Rank least, std::int32_t* selected) {
  TopK::Scratch& s = shared.scratch;
  const int width = device::bit_width(row.length - 1);
  const int shift = width > TopK::kDigitBits ? width - TopK::kDigitBits : 0;
  // From the last bin down, as ThreadBins has them.
  const auto bin_of = [&](std::uint32_t place) { return TopK::kBins - 1 - (place >> shift); };
  held([&](Rank rank) {
    if (rank >= least) device::atomic_add(device::shared(s.bins[bin_of(place_of<Rules>(rank))]), 1);
  });
  device::sync_block();
  std::uint32_t count[ThreadBins::kCount];
  std::uint32_t own = 0;
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i)
    own += count[i] = device::load(device::shared(s.bins[ThreadBins::number(i)]));
  std::uint32_t before = sum_before_thread<Rules>(s, own);
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i) {
    device::store(device::shared(s.bins[ThreadBins::number(i)]), before);
    before += count[i];
  }
  device::sync_block();
  // The candidates' places have been read: they are overwritten. Bins end where they began plus
  // what they hold: where the next one begins.
  held([&](Rank rank) {
    if (rank < least) return;
    const std::uint32_t place = place_of<Rules>(rank);
    const std::uint32_t slot = device::atomic_add(device::shared(s.bins[bin_of(place)]), 1);
    device::store(device::shared(shared.place[slot]), place);
  });
  device::sync_block();
  held([&](Rank rank) {
    if (rank < least) return;
    const std::uint32_t place = place_of<Rules>(rank), bin = bin_of(place);
    const std::uint32_t begin =
        bin == TopK::kBins - 1 ? 0 : device::load(device::shared(s.bins[bin + 1]));
    const std::uint32_t end = device::load(device::shared(s.bins[bin]));
    std::uint32_t position = begin;
    MLACHECK_ROLLED
    for (std::uint32_t i = begin; i < end; ++i)
      if (device::load(device::shared(shared.place[i])) < place) ++position;
    device::store(selected + position, row.first + static_cast<std::int32_t>(place));
  });
}

// Selects from the block's candidates, of which everybody must know. Where the guess was wrong, too
// few or more than fit, they are collected again, from the exact threshold on.
template <class Rules>
MLACHECK_DEVICE_FN void finish(const TopKArguments& a, TopK::Shared& shared, const TopKRow& row,
                               std::int32_t* selected) {
  TopK::Scratch& s = shared.scratch;
  std::uint32_t candidates = device::load(device::shared(s.candidates));
  if (candidates < a.k || candidates > TopK::kCapacity) {
    const Rank exact = find_threshold<Rules>(s, RanksOfRow<Rules>{row}, 0, 64, a.k, 0);
    if (device::thread_index() == 0) device::store(device::shared(s.candidates), 0);
    device::sync_block();
    collect<Rules>(s, row, 0, row.vectors, exact, KeepInShared{shared});
    device::sync_block();
    candidates = device::load(device::shared(s.candidates));
  }
  HeldRanks held;
  MLACHECK_UNROLL
  for (int j = 0; j < TopK::kPerThread; ++j) {
    const std::uint32_t i = device::thread_index() + static_cast<unsigned>(j) * TopK::kThreads;
    if (i < candidates)
      held.rank[j] = rank_of<Rules>(device::load(device::shared(shared.score[i])),
                                    device::load(device::shared(shared.place[i])));
  }
  const Rank least = candidates == a.k ? 0 : last_selected<Rules>(s, held, a.k);
  write_ascending<Rules>(shared, row, held, least, selected);
}

}  // namespace mlacheck::kernels
