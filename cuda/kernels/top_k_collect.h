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

// Lists the scores of vectors [begin, end) of a row that reach a rank: keep(slot, score, place), in
// no order that is promised. Counts also those that no longer fit.
template <class Rules, class Keep>
MLACHECK_DEVICE_FN void collect(TopK::Scratch& s, const TopKRow& row, std::uint32_t begin,
                                std::uint32_t end, Rank rank, Keep keep) {
  const Reach reach = Reach::of<Rules>(rank, row);
  row.each_tile(begin, end, [&](const TopKTile& tile) {
    unsigned mask = 0;
    MLACHECK_UNROLL
    for (unsigned u = 0; u < TopKTile::kVectors; ++u)
      mask |= reach.mask<Rules>(tile.x[u], tile.number(u)) << 4 * u;
    mask &= tile.valid;
    const auto own = static_cast<std::uint32_t>(device::count_ones(mask));
    const std::uint32_t sum = sum_to_lane(own);
    const std::uint32_t total = device::shuffle(sum, device::kWarpSize - 1);
    if (total == 0) return;
    std::uint32_t slot = 0;
    if (device::lane_index() == 0) slot = device::atomic_add(device::shared(s.candidates), total);
    slot = device::shuffle(slot, 0) + Rules::exclusive(sum, own);
    // Few: to load them again is less work than to choose among registers.
    MLACHECK_ROLLED
    for (; mask != 0; mask &= mask - 1, ++slot) {
      const auto bit = static_cast<unsigned>(device::lowest_one(mask));
      const std::uint32_t place = row.place(tile.number(bit / 4)) + bit % 4;
      if (slot < TopK::kCapacity) keep(slot, row.load_one(place), place);
    }
  });
}

// Calls visit(rank) for all scores of a row.
template <class Rules>
struct RanksOfRow {
  const TopKRow& row;

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    row.each_tile(0, row.vectors, [&](const TopKTile& tile) {
      MLACHECK_UNROLL
      for (unsigned i = 0; i < 4 * TopKTile::kVectors; ++i)
        if ((tile.valid >> i & 1u) != 0)
          visit(rank_of<Rules>(tile.x[i / 4].value[i % 4], row.place(tile.number(i / 4)) + i % 4));
    });
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
  const int width = device::bit_width(pairs);
  const int step = width > kMostPairsBits ? width - kMostPairsBits : 0;
  constexpr int kVectors = TopK::kPerThread / 4;
  device::Floats4 x[kVectors] = {};
  std::uint32_t number[kVectors] = {};  // of the vector; 0 where there is none
  MLACHECK_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    const std::uint32_t i = device::thread_index() + static_cast<unsigned>(j) * TopK::kThreads;
    if (i / 2 >= pairs >> step) continue;
    // Multiples of the golden ratio spread evenly.
    const std::uint32_t within = step == 0 ? 0 : i / 2 * 0x9e3779b9u >> (32 - step);
    number[j] = first + 2 * ((i / 2 << step) + within) + i % 2;
    x[j] = row.load(number[j]);
  }
  HeldRanks sample;
  MLACHECK_UNROLL
  for (int j = 0; j < TopK::kPerThread; ++j)
    if (number[j / 4] != 0)
      sample.rank[j] = rank_of<Rules>(x[j / 4].value[j % 4],
                                      row.place(number[j / 4]) + static_cast<unsigned>(j) % 4);
  // In the middle between too few and too many; for a small k nearer to k.
  const std::uint32_t middle = (k + TopK::kCapacity) / 2, enough = 4 * k + 256;
  const std::uint32_t m = ((middle < enough ? middle : enough) >> step) + 1;
  return find_threshold<Rules>(s, sample, 0, 64, m, m / 8);
}

}  // namespace mlacheck::kernels
