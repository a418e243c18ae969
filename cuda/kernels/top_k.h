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
// The order in which candidates enter the list depends on the schedule; the selected set does not,
// and it is written by counting.
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
  const std::uint32_t number = device::block_index();
  std::int32_t* selected = a.selected + std::int64_t{number} * a.k;
  clear(shared.scratch);
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(row, a.k, selected);
  device::sync_block();
  const Rank guess = guess_threshold<Rules>(shared.scratch, row, a.k);
  collect<Rules>(shared.scratch, row, 0, row.vectors, guess, KeepInShared{shared});
  device::sync_block();
  finish<Rules>(a, shared, row, selected);
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_slices(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Scratch& s = device::shared_memory<TopK::Scratch>();
  const std::uint32_t number = device::block_index(), slice = device::block_index_y();
  device::let_next_kernel_start();
  clear(s);
  const TopKRow row(a, number);
  if (row.length <= a.k) return;
  device::sync_block();
  const Rank guess = guess_threshold<Rules>(s, row, a.k);
  const std::uint32_t vectors = a.slices.quotient(row.vectors + a.slices.divisor() - 1);
  const std::uint32_t begin = slice * vectors;
  const std::int64_t list = std::int64_t{number} * a.slices.divisor() + slice;
  Candidate* candidates = a.candidates + list * TopK::kCapacity;
  if (begin < row.vectors)
    collect<Rules>(s, row, begin, begin + vectors < row.vectors ? begin + vectors : row.vectors,
                   guess, [&](std::uint32_t slot, float score, std::uint32_t place) {
                     device::store(candidates + slot, {std::bit_cast<std::uint32_t>(score), place});
                   });
  device::sync_block();
  if (device::thread_index() == 0)
    device::store(a.collected + list, device::load(device::shared(s.candidates)));
}

template <class Rules>
MLACHECK_KERNEL(TopK::kThreads, 1)
top_k_merge(const TopKArguments arguments) {
  const TopKArguments& a = arguments;
  TopK::Shared& shared = device::shared_memory<TopK::Shared>();
  TopK::Scratch& s = shared.scratch;
  const std::uint32_t number = device::block_index(), slices = a.slices.divisor();
  const unsigned lane = device::lane_index(), warp = device::warp_index();
  std::int32_t* selected = a.selected + std::int64_t{number} * a.k;
  clear(s);
  const TopKRow row(a, number);
  if (row.length <= a.k) return write_all(row, a.k, selected);
  device::wait_for_previous_kernel();

  const std::int64_t lists = std::int64_t{number} * slices;
  const std::uint32_t own = lane < slices ? device::load(a.collected + lists + lane) : 0;
  const std::uint32_t end = sum_to_lane(own);
  const std::uint32_t total = device::shuffle(end, device::kWarpSize - 1);
  const std::uint32_t count = device::shuffle(own, warp);
  const std::uint32_t begin = device::shuffle(end, warp) - count;
  if (device::thread_index() == 0) device::store(device::shared(s.candidates), total);
  if (total <= TopK::kCapacity) {
    const Candidate* candidates = a.candidates + (lists + warp) * TopK::kCapacity;
    constexpr unsigned kAhead = 8;  // that a lane loads at once
    MLACHECK_ROLLED
    for (std::uint32_t from = lane; from < count; from += kAhead * device::kWarpSize) {
      Candidate candidate[kAhead] = {};
      MLACHECK_UNROLL
      for (unsigned i = 0; i < kAhead; ++i)
        if (from + i * device::kWarpSize < count)
          candidate[i] = device::load(candidates + from + i * device::kWarpSize);
      MLACHECK_UNROLL
      for (unsigned i = 0; i < kAhead; ++i) {
        const std::uint32_t at = from + i * device::kWarpSize;
        if (at >= count) continue;
        device::store(device::shared(shared.score[begin + at]),
                      std::bit_cast<float>(candidate[i].word[0]));
        device::store(device::shared(shared.place[begin + at]), candidate[i].word[1]);
      }
    }
  }
  device::sync_block();
  finish<Rules>(a, shared, row, selected);
}

}  // namespace mlacheck::kernels
