#pragma once

#include "cuda/kernels/top_k_order.h"

namespace mlacheck::kernels {

// top_k: the k largest scores of each row, exactly, ascending by index; equal scores by the lowest
// index, NaN last.
//
// A row is read once. A sample of it gives a threshold that, in all likelihood, somewhat more than
// k of its scores reach; these candidates are listed while the row streams by, and the k-th largest
// is found among them by radix selection in shared memory. Where the guess was wrong, the same
// radix selection runs over the row itself, and what reaches its threshold is collected again:
// slower, the same result. Scores are ranked with their index below them, so that no two are equal:
// a plateau of zeros is sampled, cut and selected as anything else is.
//
//   top_k_rows       a block a row: for as many rows as there are multiprocessors, and short ones
//   top_k_long_rows  the same for rows so long that to read them is what counts: candidates are
//                    listed as they come, in no order, and put in order when it is known which of
//                    them are selected (top_k_stream.h)
//   top_k_slices     many blocks a row: each samples the row, and lists the candidates of its slice
//   top_k_merge      a block a row: selects from the candidates of all slices
//
// In all but top_k_long_rows candidates are listed by ascending index, and so are written. It
// guesses again where the first guess was wrong; no order of threads shows in what it writes.
//
// Two kernels in place of a cluster of blocks: 32 blocks can share a row rather than 8, which is
// what a row of a million needs; only one message passes between them, the candidates, and it fits
// the programmatic launch; and clusters have not been seen at work on SM120.
template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_rows(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index();
  clear(s);
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(a, row);
  device::sync_block();
  const SharedList list{shared};
  const TopKSample<Rules> sample(row, a.k);
  const TopKTile tile = row.load_tile(0, row.vectors);  // behind it, not before
  const Rank guess = guess_threshold<Rules>(s, row, sample);
  const std::uint32_t candidates = collect<Rules>(s, row, tile, 0, row.vectors, guess, list);
  list.end(candidates);
  device::sync_block();
  if (is_wrong(a, candidates)) return select_exactly<Rules>(a, shared, TopKRow(a, number));
  const TopKRow again(a, number);  // not kept meanwhile: there are no registers for it
  select_candidates<Rules>(a, s, again, list.held<Rules>(candidates), candidates);
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_long_rows(const TopKArguments arguments) {
  using K = TopKStream;
  const TopKArguments& a = arguments;
  K::Shared& shared = device::shared_memory<K::Shared>();
  clear(shared);
  RowStream stream(shared);
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  // A second guess makes up for a first one that was wrong; the third is none.
  std::uint32_t candidates = 0;
  MLACHECK_ROLLED
  for (int guesses = 0; guesses < 3; ++guesses) {
    const TopKRow row(a, device::anew(device::block_index()));
    if (row.length <= a.k) return write_all(a, row);
    Rank least = 0;
    if (row.length > K::kCapacity && guesses < 2) {
      const StreamSample<Rules> sample(row);
      stream.start(row);  // behind it, not before
      const std::uint32_t wanted = wanted_of_sample(row, a.k, candidates);
      least = guess_threshold<Rules>(shared.scratch, row, sample, wanted);
    } else {
      stream.start(row);
      if (row.length > K::kCapacity)
        least = find_threshold<Rules>(shared.scratch, RanksOfRow<Rules>{row}, 0, 32, a.k, 0,
                                      row.length);
    }
    RowLister<Rules> lister(shared, row, least);
    lister.list(stream);
    device::sync_block();
    candidates = device::load(device::shared(shared.listed));
    if (candidates >= a.k && candidates <= K::kCapacity) {
      // The row is not kept meanwhile: there are no registers for it.
      const TopKRow again(a, device::anew(device::block_index()));
      return ListOrder<Rules>(a, shared, again, lister.distances(), candidates).write();
    }
    device::sync_block();
    clear(shared);
    device::sync_block();
  }
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_slices(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index(), slice = device::block_index_y();
  clear(s);
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const TopKRow row(a, number);
  if (row.length <= a.k) return;
  device::sync_block();
  const std::uint32_t vectors = a.slices.quotient(row.vectors + a.slices.divisor() - 1);
  const std::uint32_t begin = slice * vectors;
  const std::uint32_t end = begin + vectors < row.vectors ? begin + vectors : row.vectors;
  const std::int64_t list = std::int64_t{number} * a.slices.divisor() + slice;
  Candidate* candidates = a.candidates + list * TopK::kCapacity;
  const TopKSample<Rules> sample(row, a.k);
  const TopKTile tile = row.load_tile(begin, end);  // behind it, not before
  const Rank guess = guess_threshold<Rules>(s, row, sample);
  const SharedList own{shared};
  const std::uint32_t collected = collect<Rules>(s, row, tile, begin, end, guess, own);
  device::sync_block();
  if (device::thread_index() == 0) device::store(a.collected + list, collected);
  if (collected > TopK::kCapacity) return;  // nobody will look at them
  MLACHECK_ROLLED
  for (std::uint32_t i = device::thread_index(); i < collected; i += TopK::kThreads)
    device::store(candidates + i, own.candidate(i));
}

// Brings the slices' lists together: each warp one of them, and all together what is left of a long
// one. The lanes have the slices' counts, and what these are up to each.
MLACHECK_DEVICE_FN void join(const SharedList& list, const Candidate* lists, std::uint32_t count,
                             std::uint32_t end) {
  constexpr unsigned kOfLane = 8, kOfWarp = kOfLane * device::kWarpSize;
  const auto keep = [&](std::uint32_t number, const Candidate& candidate) {
    list(number, std::bit_cast<float>(candidate.word[0]), candidate.word[1]);
  };
  const unsigned slice = device::warp_index();
  const std::uint32_t own = device::shuffle(count, slice),
                      begin = device::shuffle(end, slice) - own;
  Candidate candidates[kOfLane] = {};
  MLACHECK_UNROLL
  for (unsigned j = 0; j < kOfLane; ++j) {
    const std::uint32_t i = device::lane_index() + j * device::kWarpSize;
    if (i < own) candidates[j] = device::load(lists + slice * TopK::kCapacity + i);
  }
  MLACHECK_UNROLL
  for (unsigned j = 0; j < kOfLane; ++j) {
    const std::uint32_t i = device::lane_index() + j * device::kWarpSize;
    if (i < own) keep(begin + i, candidates[j]);
  }
  MLACHECK_ROLLED
  for (unsigned rest = device::ballot(count > kOfWarp); rest != 0; rest &= rest - 1) {
    const auto longer = static_cast<unsigned>(device::lowest_one(rest));
    const std::uint32_t all = device::shuffle(count, longer);
    const std::uint32_t from = device::shuffle(end, longer) - all;
    MLACHECK_ROLLED
    for (std::uint32_t i = kOfWarp + device::thread_index(); i < all; i += TopK::kThreads)
      keep(from + i, device::load(lists + longer * TopK::kCapacity + i));
  }
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_merge(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index(), slices = a.slices.divisor();
  const unsigned lane = device::lane_index();
  clear(s);
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(a, row);

  const std::int64_t lists = std::int64_t{number} * slices;
  const std::uint32_t count = lane < slices ? device::load(a.collected + lists + lane) : 0;
  const std::uint32_t end = device::sum_to_lane(count);
  const std::uint32_t candidates = device::shuffle(end, device::kWarpSize - 1);
  const SharedList list{shared};
  const bool wrong = is_wrong(a, candidates);
  if (!wrong) {
    join(list, a.candidates + lists * TopK::kCapacity, count, end);
    list.end(candidates);
  }
  device::sync_block();
  if (wrong) return select_exactly<Rules>(a, shared, row);
  select_candidates<Rules>(a, s, row, list.held<Rules>(candidates), candidates);
}

}  // namespace mlacheck::kernels
