#pragma once

#include "cuda/kernels/top_k_row.h"
#include "cuda/kernels/top_k_threshold.h"

namespace mlacheck::kernels {

// Which scores reach a rank, without their keys: those of at least `until` in the vectors up to the
// one where the rank stands, of at least `after` in later ones. So equal scores of that one vector
// reach it too.
struct Reach {
  float until;
  float after;
  std::uint32_t last_vector;
  bool nan;  // NaN reaches it too, up to last_vector

  template <class Rules>
  static MLACHECK_DEVICE_FN Reach of(Rank rank, const TopKRow& row) {
    constexpr std::uint32_t kInfinitysKey = 0x007fffffu;  // its key; those below it are NaN's
    const std::uint32_t place = place_of<Rules>(rank), last = row.length - 1;
    const std::uint32_t least = key_of(rank);
    const bool numbers = least < kInfinitysKey;
    return {score_of(numbers ? kInfinitysKey : least),
            score_of(numbers ? kInfinitysKey : least + 1),
            ((place < last ? place : last) + row.before) / 4, least == 0};
  }

  // Bit i: score i of the vector.
  template <class Rules>
  MLACHECK_DEVICE_FN unsigned mask(const device::Floats4& x, std::uint32_t vector) const {
    const bool early = vector <= last_vector;
    const float least = early ? until : after;
    const bool any = early && nan;
    unsigned bits = 0;
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      if (any || Rules::reaches(x.value[i], least)) bits |= 1u << i;
    return bits;
  }

 private:
  static MLACHECK_DEVICE_FN float score_of(std::uint32_t key) {
    return std::bit_cast<float>((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
  }
};

// Gives the scores that the mask names, bit 4 u + i for place(u) + i, the next places of the list,
// in no order that is promised; counts also those that no longer fit. A collective of the warp.
template <class Rules, unsigned kVectors, class Place, class Keep>
MLACHECK_DEVICE_FN void append(TopK::Scratch& s, const device::Floats4 (&x)[kVectors],
                               unsigned mask, Place place, Keep keep) {
  const auto own = static_cast<std::uint32_t>(std::popcount(mask));
  const std::uint32_t sum = sum_to_lane(own);
  const std::uint32_t total = device::shuffle(sum, device::kWarpSize - 1);
  if (total == 0) return;
  std::uint32_t slot = 0;
  if (device::lane_index() == 0) slot = device::atomic_add(device::shared(s.candidates), total);
  slot = device::shuffle(slot, 0) + Rules::exclusive(sum, own);
  MLACHECK_UNROLL
  for (unsigned u = 0; u < kVectors; ++u) MLACHECK_UNROLL
  for (unsigned i = 0; i < 4; ++i)
    if ((mask >> (4 * u + i) & 1u) != 0) {
      if (slot < TopK::kCapacity) keep(slot, x[u].value[i], place(u) + i);
      ++slot;
    }
}

// Lists the scores of vectors [begin, end) of a row that reach a rank.
template <class Rules, class Keep>
MLACHECK_DEVICE_FN void collect(TopK::Scratch& s, const TopKRow& row, std::uint32_t begin,
                                std::uint32_t end, Rank rank, Keep keep) {
  constexpr unsigned kAhead = 4;  // vectors that a thread loads at once
  const Reach reach = Reach::of<Rules>(rank, row);
  const std::uint32_t last = row.vectors - 1;
  const std::uint32_t inner_begin = begin > 1 ? begin : 1, inner_end = end < last ? end : last;
  MLACHECK_ROLLED
  for (std::uint32_t from = inner_begin; from < inner_end; from += kAhead * TopK::kThreads) {
    const std::uint32_t vector = from + device::thread_index();
    device::Floats4 x[kAhead] = {};
    MLACHECK_UNROLL
    for (unsigned u = 0; u < kAhead; ++u)
      if (vector + u * TopK::kThreads < inner_end) x[u] = row.load(vector + u * TopK::kThreads);
    unsigned mask = 0;
    MLACHECK_UNROLL
    for (unsigned u = 0; u < kAhead; ++u)
      if (vector + u * TopK::kThreads < inner_end)
        mask |= reach.mask<Rules>(x[u], vector + u * TopK::kThreads) << 4 * u;
    append<Rules>(
        s, x, mask, [&](unsigned u) { return row.place(vector + u * TopK::kThreads); }, keep);
  }
  // The first vector and the last, of which some scores may stand outside.
  if (device::warp_index() != 0) return;
  const unsigned lane = device::lane_index();
  const std::uint32_t vector = lane < 4 ? 0 : last;
  const std::uint32_t place = row.place(vector) + lane % 4;
  const bool mine = lane < (last == 0 ? 4u : 8u) && vector >= begin && vector < end;
  device::Floats4 x[1] = {};
  unsigned mask = 0;
  if (mine && place < row.length) {
    x[0].value[0] = row.load_one(place);
    mask = reach.mask<Rules>(x[0], vector) & 1u;
  }
  append<Rules>(
      s, x, mask, [&](unsigned) { return place; }, keep);
}

// Calls visit(rank) for all scores of a row.
template <class Rules>
struct RanksOfRow {
  const TopKRow& row;

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_ROLLED
    for (std::uint32_t place = device::thread_index(); place < row.length; place += TopK::kThreads)
      visit(rank_of<Rules>(row.load_one(place), place));
  }
};

// Ranks in a thread's registers; 0 stands for none.
struct HeldRanks {
  Rank rank[TopK::kPerThread] = {};

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_UNROLL
    for (const Rank held : rank)
      if (held != 0) visit(held);
  }
};

// A rank that, one may hope, at least k scores of the row reach and at most kCapacity: from a sample
// of it. Where all of them fit: the least.
//
// The sample is 32 bytes of each 2^step: as little as memory reads, at a place that varies, so that
// no period of the scores meets its own.
template <class Rules>
MLACHECK_DEVICE_FN Rank guess_threshold(TopK::Scratch& s, const TopKRow& row, std::uint32_t k) {
  if (row.length <= TopK::kCapacity) return 0;
  constexpr int kMostPairsBits = std::bit_width(TopK::kCapacity / 8 - 1);
  const auto start = reinterpret_cast<std::uintptr_t>(row.origin) / sizeof(device::Floats4) % 2;
  const auto first = 2 - static_cast<std::uint32_t>(start);  // a vector of 32-byte alignment
  const std::uint32_t pairs = (row.vectors - 1 - first) / 2;
  const int width = static_cast<int>(std::bit_width(pairs));
  const int step = width > kMostPairsBits ? width - kMostPairsBits : 0;
  HeldRanks sample;
  MLACHECK_UNROLL
  for (int j = 0; j < TopK::kPerThread / 4; ++j) {
    const std::uint32_t i = device::thread_index() + static_cast<unsigned>(j) * TopK::kThreads;
    if (i / 2 >= pairs >> step) continue;
    // Multiples of the golden ratio spread evenly.
    const std::uint32_t within = step == 0 ? 0 : i / 2 * 0x9e3779b9u >> (32 - step);
    const std::uint32_t vector = first + 2 * ((i / 2 << step) + within) + i % 2;
    const device::Floats4 x = row.load(vector);
    MLACHECK_UNROLL
    for (unsigned c = 0; c < 4; ++c)
      sample.rank[4 * j + static_cast<int>(c)] = rank_of<Rules>(x.value[c], row.place(vector) + c);
  }
  // In the middle between too few and too many; for a small k nearer to k.
  const std::uint32_t middle = (k + TopK::kCapacity) / 2, enough = 4 * k + 256;
  const std::uint32_t m = ((middle < enough ? middle : enough) >> step) + 1;
  return find_threshold<Rules>(s, sample, 0, 64, m, m / 8);
}

}  // namespace mlacheck::kernels
