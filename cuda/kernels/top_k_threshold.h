#pragma once

#include "cuda/device/atomic.h"
#include "cuda/device/barrier.h"
#include "cuda/device/bits.h"
#include "cuda/device/scan.h"
#include "cuda/device/thread.h"
#include "cuda/kernels/top_k_arguments.h"

namespace mlacheck::kernels {

// Of all warps before this one, from the sums to each warp that the lanes have.
MLACHECK_DEVICE_FN std::uint32_t sum_before_warp(std::uint32_t sum, unsigned warp) {
  const std::uint32_t other = device::shuffle(sum, warp - 1);
  return warp == 0 ? 0 : other;
}

// Of all threads before this one. The block meets once in it, and must before the next.
template <class Rules>
MLACHECK_DEVICE_FN std::uint32_t sum_before_thread(TopK::Scratch& s, std::uint32_t own) {
  const unsigned lane = device::lane_index(), warp = device::warp_index();
  const std::uint32_t sum = device::sum_to_lane(own);
  if (lane == device::kWarpSize - 1) device::store(device::shared(s.totals[0][warp]), sum);
  device::sync_block();
  const std::uint32_t warps = device::sum_to_lane(device::load(device::shared(s.totals[0][lane])));
  return sum_before_warp(warps, warp) + Rules::exclusive(sum, own);
}

// The bins of a thread, from the last one down: [0] of thread 0 is bin kBins - 1.
struct ThreadBins {
  static constexpr std::uint32_t kCount = TopK::kBins / TopK::kThreads;
  static MLACHECK_DEVICE_FN std::uint32_t number(std::uint32_t i) {
    return TopK::kBins - 1 - (device::thread_index() * kCount + i);
  }
};

// The bin of the m-th largest, which is the `remaining`-th largest in it.
struct FoundBin {
  std::uint32_t value;  // the bin's number, or the least value in it
  std::uint32_t remaining;
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
  std::uint32_t above = sum_before_thread<Rules>(s, own);
  MLACHECK_UNROLL
  for (std::uint32_t i = 0; i < ThreadBins::kCount; ++i) {
    if (above < m && m - above <= count[i]) {
      device::store(device::shared(s.digit), ThreadBins::number(i));
      device::store(device::shared(s.remaining), m - above);
      device::store(device::shared(s.in_bin), count[i]);
    }
    above += count[i];
  }
  device::sync_block();
  return {device::load(device::shared(s.digit)), device::load(device::shared(s.remaining)),
          device::load(device::shared(s.in_bin))};
}

// A window of values by their leading digit: of kDigitBits, or of all bits where it has no more.
struct Digits {
  std::uint32_t low;
  int shift;
  std::uint32_t count;

  MLACHECK_DEVICE_FN Digits(std::uint32_t least, int bits)
      : low(least),
        shift(bits > TopK::kDigitBits ? bits - TopK::kDigitBits : 0),
        count(1u << (bits - shift)) {}
  MLACHECK_DEVICE_FN std::uint32_t of(std::uint32_t value) const { return (value - low) >> shift; }
};

// Counts values by their digit and finds the bin of the m-th largest.
//
// each_value(visit) calls visit(value, counts) for all values that count, of which at least m lie
// in the window and none elsewhere, and perhaps for others.
template <class Rules, class EachValue>
MLACHECK_DEVICE_FN FoundBin find_digit(TopK::Scratch& s, EachValue each_value, const Digits& digits,
                                       std::uint32_t m) {
  each_value([&](std::uint32_t value, bool counts) {
    const std::uint32_t digit = digits.of(value);
    if (counts & (digit < digits.count)) device::atomic_add(device::shared(s.bins[digit]), 1);
  });
  device::sync_block();
  return find_bin<Rules>(s, m);
}

// The least of a bin that holds the m-th largest value, and what is in that bin: one value, or
// several of which at most `slack` are too many. Radix selection: each round counts the values of a
// window, [low, low + 2^bits) at first, by their next digit, and the digit's bin is the next
// window.
template <class Rules, class EachValue>
MLACHECK_DEVICE_FN FoundBin select(TopK::Scratch& s, EachValue each_value, std::uint32_t low,
                                   int bits, std::uint32_t m, std::uint32_t slack) {
  MLACHECK_ROLLED
  for (;;) {
    const Digits digits(low, bits);
    const FoundBin found = find_digit<Rules>(s, each_value, digits, m);
    low += found.value << digits.shift;
    m = found.remaining;
    bits = digits.shift;
    if (bits == 0 || found.in_bin - m <= slack) return {low, m, found.in_bin};
  }
}

// A rank that at least m ranks reach, and at most m + slack: with slack 0 the m-th largest, or one
// just below it. each_rank(visit) calls visit(rank, counts) for all ranks that count, of at least m
// scores of a row of `length`, with keys in [low, low + 2^bits).
template <class Rules, class EachRank>
MLACHECK_DEVICE_FN Rank find_threshold(TopK::Scratch& s, EachRank each_rank, std::uint32_t low,
                                       int bits, std::uint32_t m, std::uint32_t slack,
                                       std::uint32_t length) {
  const FoundBin key = select<Rules>(
      s,
      [&](auto visit) { each_rank([&](Rank rank, bool counts) { visit(key_of(rank), counts); }); },
      low, bits, m, slack);
  if (key.in_bin - key.remaining <= slack) return Rank{key.value} << 32;
  const FoundBin tie = select<Rules>(
      s,
      [&](auto visit) {
        each_rank([&](Rank rank, bool counts) {
          visit(static_cast<std::uint32_t>(rank), counts & (key_of(rank) == key.value));
        });
      },
      ~(length - 1), device::bit_width(length - 1), key.remaining, slack);
  return Rank{key.value} << 32 | tie.value;
}

}  // namespace mlacheck::kernels
