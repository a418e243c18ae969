#pragma once

#include "cuda/kernels/top_k_finish.h"

namespace mlacheck::kernels {

// top_k: the k largest scores of each row, exactly, ascending by index; equal scores by the lowest
// index, NaN last.
//
// A row is read once. A sample of it gives a threshold that, in all likelihood, somewhat more than k
// of its scores reach; these candidates are listed while the row streams by, and the k-th largest is
// found among them by radix selection in shared memory. Where the guess was wrong, the same radix
// selection runs over the row itself, and what reaches its threshold is collected again: slower, the
// same result. Scores are ranked with their index below them, so that no two are equal: a plateau of
// zeros is sampled, cut and selected as anything else is.
//
// Candidates are listed by ascending index, and so are written: no order of threads shows anywhere.
//
//   top_k_rows     a block a row, for as many rows as there are multiprocessors, and for short ones
//   top_k_slices   many blocks a row: each samples the row, and lists the candidates of its slice
//   top_k_merge    a block a row: selects from the candidates of all slices
//
// Two kernels in place of a cluster of blocks: 32 blocks can share a row rather than 8, which is what
// a row of a million needs; only one message passes between them, the candidates, and it fits the
// programmatic launch; and clusters have not been seen at work on SM120.
template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_rows(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index();
  std::int32_t* selected = a.selected + std::int64_t{number} * a.k;
  clear(s);
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(row, a.k, selected);
  device::sync_block();
  const SharedList list{shared};
  const TopKTile tile = row.load_tile(0, row.vectors);  // on its way meanwhile
  const Rank guess = guess_threshold<Rules>(s, row, a.k);
  const std::uint32_t candidates = collect<Rules>(s, row, tile, 0, row.vectors, guess, list);
  device::sync_block();
  if (is_wrong(a, candidates)) return select_exactly<Rules>(a, shared, row, selected);
  select_candidates<Rules>(a, s, row, list.held<Rules>(candidates), candidates, selected);
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_slices(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Scratch& s = device::shared_memory<TopK::Scratch>();
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
  const TopKTile tile = row.load_tile(begin, end);  // on its way meanwhile
  const Rank guess = guess_threshold<Rules>(s, row, a.k);
  const std::uint32_t collected = collect<Rules>(
      s, row, tile, begin, end, guess, [&](std::uint32_t i, float score, std::uint32_t place) {
        device::store(candidates + i, {std::bit_cast<std::uint32_t>(score), place});
      });
  if (device::thread_index() == 0) device::store(a.collected + list, collected);
}

// The thread's part of the candidates, in the order of the slices.
template <class Rules>
MLACHECK_DEVICE_FN HeldRanks held_of_lists(TopK::Scratch& s, const Candidate* lists,
                                           std::uint32_t candidates) {
  HeldRanks held;
  const std::uint32_t first = device::thread_index() * TopK::kPerThread;
  if (first >= candidates) return held;
  std::uint32_t slice = 0;  // the first that ends past it
  MLACHECK_UNROLL
  for (std::uint32_t step = TopK::kMostSlices / 2; step > 0; step /= 2)
    if (device::load(device::shared(s.ends[slice + step - 1])) <= first) slice += step;
  std::uint32_t begin = slice == 0 ? 0 : device::load(device::shared(s.ends[slice - 1]));
  std::uint32_t end = device::load(device::shared(s.ends[slice]));
  Candidate candidate[TopK::kPerThread] = {};
  MLACHECK_UNROLL
  for (unsigned j = 0; j < TopK::kPerThread; ++j) {
    const std::uint32_t i = first + j;
    if (i >= candidates) continue;
    while (i >= end) {
      begin = end;
      end = device::load(device::shared(s.ends[++slice]));
    }
    candidate[j] = device::load(lists + slice * TopK::kCapacity + (i - begin));
  }
  MLACHECK_UNROLL
  for (unsigned j = 0; j < TopK::kPerThread; ++j)
    if (first + j < candidates)
      held.rank[j] =
          rank_of<Rules>(std::bit_cast<float>(candidate[j].word[0]), candidate[j].word[1]);
  return held;
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_merge(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index(), slices = a.slices.divisor();
  const unsigned lane = device::lane_index();
  std::int32_t* selected = a.selected + std::int64_t{number} * a.k;
  clear(s);
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(row, a.k, selected);

  const std::int64_t lists = std::int64_t{number} * slices;
  const std::uint32_t end =
      device::sum_to_lane(lane < slices ? device::load(a.collected + lists + lane) : 0);
  const std::uint32_t candidates = device::shuffle(end, device::kWarpSize - 1);
  if (device::warp_index() == 0) device::store(device::shared(s.ends[lane]), end);
  device::sync_block();
  if (is_wrong(a, candidates)) return select_exactly<Rules>(a, shared, row, selected);
  const HeldRanks held =
      held_of_lists<Rules>(s, a.candidates + lists * TopK::kCapacity, candidates);
  select_candidates<Rules>(a, s, row, held, candidates, selected);
}

}  // namespace mlacheck::kernels
