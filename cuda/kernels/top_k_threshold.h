#pragma once

#include "cuda/device/atomic.h"
#include "cuda/device/barrier.h"
#include "cuda/device/bits.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"
#include "cuda/kernels/top_k_arguments.h"

namespace mlacheck::kernels {

// Of a lane and all before it; a collective of the warp.
MLACHECK_DEVICE_FN std::uint32_t sum_to_lane(std::uint32_t own) {
  const unsigned lane = device::lane_index();
  std::uint32_t sum = own;
  MLACHECK_UNROLL
  for (unsigned distance = 1; distance < device::kWarpSize; distance *= 2) {
    const std::uint32_t other = device::shuffle(sum, lane - distance);
    if (lane >= distance) sum += other;
  }
  return sum;
}

// Of all threads before this one. The block meets once in it, and must before the next.
template <class Rules>
MLACHECK_DEVICE_FN std::uint32_t sum_before_thread(TopK::Scratch& s, std::uint32_t own) {
  const unsigned lane = device::lane_index(), warp = device::warp_index();
  const std::uint32_t sum = sum_to_lane(own);
  if (lane == device::kWarpSize - 1) device::store(device::shared(s.totals[warp]), sum);
  device::sync_block();
  const std::uint32_t warps = sum_to_lane(device::load(device::shared(s.totals[lane])));
  const std::uint32_t before = device::shuffle(warps, warp - 1);
  return (warp == 0 ? 0 : before) + Rules::exclusive(sum, own);
}

// The bins of a thread, from the last one down: [0] of thread 0 is bin kBins - 1.
struct ThreadBins {
  static constexpr std::uint32_t kCount = TopK::kBins / TopK::kThreads;
  static MLACHECK_DEVICE_FN std::uint32_t number(std::uint32_t i) {
    return TopK::kBins - 1 - (device::thread_index() * kCount + i);
  }
};

// A bin of the m-th largest, of which those in higher bins are not `remaining`.
struct FoundBin {
  std::uint32_t digit;
  std::uint32_t remaining;  // 1 ... in_bin
  std::uint32_t in_bin;
};

// Finds it and clears the bins. What was added to them everybody must know.
template <class Rules>
MLACHECK_DEVICE_FN FoundBin find_bin(TopK::Scratch& s, std::uint32_t m) {
  std::uint32_t count[ThreadBins::kCount];
  std::uint32_t own = 0;
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i) {
    const auto bin = device::shared(s.bins[ThreadBins::number(i)]);
    count[i] = device::load(bin);
    device::store(bin, 0);
    own += count[i];
  }
  std::uint32_t before = sum_before_thread<Rules>(s, own);
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i) {
    if (before < m && m - before <= count[i]) {
      device::store(device::shared(s.digit), ThreadBins::number(i));
      device::store(device::shared(s.remaining), m - before);
      device::store(device::shared(s.in_bin), count[i]);
    }
    before += count[i];
  }
  device::sync_block();
  return {device::load(device::shared(s.digit)), device::load(device::shared(s.remaining)),
          device::load(device::shared(s.in_bin))};
}

// A rank that at least m ranks reach, and at most m + slack: with slack 0, the m-th largest or a
// rank just below it. Radix selection: each round counts the ranks of a window by their next digit,
// and the digit's bin is the next window. Ranks differ, so it ends with a bin of one at the latest.
//
// each_rank(visit) calls visit(rank) for all ranks, of which at least m lie in
// [low, low + 2^bits) and none above.
template <class Rules, class EachRank>
MLACHECK_DEVICE_FN Rank find_threshold(TopK::Scratch& s, EachRank each_rank, Rank low, int bits,
                                       std::uint32_t m, std::uint32_t slack) {
  MLACHECK_ROLLED
  for (;;) {
    const int shift = bits > TopK::kDigitBits ? bits - TopK::kDigitBits : 0;
    const std::uint32_t digits = 1u << (bits - shift);
    each_rank([&](Rank rank) {
      const Rank digit = (rank - low) >> shift;
      if (rank >= low && digit < digits)
        device::atomic_add(device::shared(s.bins[static_cast<std::uint32_t>(digit)]), 1);
    });
    device::sync_block();
    const FoundBin found = find_bin<Rules>(s, m);
    low += Rank{found.digit} << shift;
    m = found.remaining;
    bits = shift;
    if (shift == 0 || found.in_bin - m <= slack) return low;
  }
}

}  // namespace mlacheck::kernels
