#pragma once

#include "cuda/kernels/top_k_collect.h"
#include "cuda/kernels/top_k_stream.h"

namespace mlacheck::kernels {

// What stands for a row that is streamed: four scores a thread, from 32 bytes of each kPlaces-th of
// the row, at a place that varies. More places tell more of a row whose scores resemble their
// neighbours, and take longer to come.
template <class Rules>
struct StreamSample {
  static constexpr std::uint32_t kVectors = 2;  // of a place
  static constexpr std::uint32_t kPlaces = TopK::kThreads / kVectors;
  Rank rank[4];

  MLACHECK_DEVICE_FN explicit StreamSample(const TopKRow& row) {
    const std::uint32_t vector = number(row, device::thread_index(), device::block_index());
    const auto x =
        device::load_constant_first(reinterpret_cast<const device::Floats4*>(row.origin) + vector);
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i) rank[i] = rank_of<Rules>(x.value[i], row.place(vector) + i);
  }

  // Of a thread's vector.
  static MLACHECK_DEVICE_FN std::uint32_t number(const TopKRow& row, unsigned thread,
                                                 unsigned block) {
    const auto start = reinterpret_cast<std::uintptr_t>(row.origin) / sizeof(device::Floats4);
    const std::uint32_t first = kVectors - static_cast<std::uint32_t>(start % kVectors);
    const std::uint32_t groups = (row.whole_end() - first) / kVectors, place = thread / kVectors;
    const std::uint32_t begin = place * groups / kPlaces, end = (place + 1) * groups / kPlaces;
    const std::uint32_t hash = (place + 29 * block) * 0x9e3779b9u;
    const auto within = static_cast<std::uint32_t>(std::uint64_t{hash} * (end - begin) >> 32);
    return first + kVectors * (begin + within) + thread % kVectors;
  }

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_UNROLL
    for (const Rank own : rank) visit(own, true);
  }
};

// So many of a row are to reach the threshold, or somewhat more: of k = 2,048 in the middle between
// too few and too many, by factors; for a smaller k more, which costs little.
MLACHECK_DEVICE_FN std::uint32_t candidates_for(std::uint32_t k) {
  return k + TopKStream::kCapacity / 4;
}
// Rounded down, and no more than 4,095. Bit by bit: the compiler divides by way of floats.
MLACHECK_DEVICE_FN std::uint32_t small_quotient(std::uint32_t dividend, std::uint32_t divisor) {
  std::uint32_t quotient = 0;
  MLACHECK_ROLLED
  for (std::uint32_t bit = 1u << 11; bit != 0; bit /= 2)
    if ((quotient | bit) * std::uint64_t{divisor} <= dividend) quotient |= bit;
  return quotient;
}

// And so many of the sample; where as many were wanted before, of which `found` came (0: not yet),
// in proportion.
MLACHECK_DEVICE_FN std::uint32_t wanted_of_sample(const TopKRow& row, std::uint32_t k,
                                                  std::uint32_t found) {
  const std::uint32_t candidates = candidates_for(k);
  const std::uint32_t wanted = small_quotient(candidates * 4 * TopK::kThreads, row.length) + 1;
  return found == 0 ? wanted : small_quotient(wanted * candidates, found) + 1;
}

// A rank that `wanted` of the sample reach, or somewhat more. The sample's largest key goes to
// s.largest.
template <class Rules>
MLACHECK_DEVICE_FN Rank guess_threshold(TopK::Scratch& s, const TopKRow& row,
                                        const StreamSample<Rules>& sample, std::uint32_t wanted) {
  // Each four lanes have a score that is not below the least of their best: a window of keys so
  // narrow that one look at their digits is enough for nearly all rows.
  std::uint32_t best = 0;
  sample([&](Rank rank, bool) { best = best > key_of(rank) ? best : key_of(rank); });
  MLACHECK_UNROLL
  for (unsigned lanes = 1; lanes < 4; lanes *= 2) {
    const std::uint32_t other = device::shuffle_xor(best, lanes);
    best = best > other ? best : other;
  }
  const std::uint32_t largest = device::maximum_of_lanes(best);
  const std::uint32_t inverse = device::maximum_of_lanes(~best);
  if (device::lane_index() == 0) {
    device::atomic_maximum(device::shared(s.largest), largest);
    device::atomic_maximum(device::shared(s.largest_inverse), inverse);
  }
  device::sync_block();
  std::uint32_t low = 0, remaining = wanted;
  int bits = 32;
  if (wanted <= TopK::kThreads / 4) {
    low = ~device::load(device::shared(s.largest_inverse));
    const Digits digits(low, device::bit_width(device::load(device::shared(s.largest)) - low));
    const FoundBin bin = find_digit<Rules>(
        s,
        [&](auto visit) {
          sample([&](Rank rank, bool) { visit(key_of(rank), key_of(rank) >= low); });
        },
        digits, wanted);
    low += bin.value << digits.shift;
    if (bin.in_bin - bin.remaining <= wanted / 8) return Rank{low} << 32;
    bits = digits.shift;
    remaining = bin.remaining;
  }
  return find_threshold<Rules>(s, sample, low, bits, remaining, wanted / 8, row.length);
}

}  // namespace mlacheck::kernels
