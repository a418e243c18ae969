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

// The counts of a mask's four nibbles, a byte each.
MLACHECK_DEVICE_FN std::uint32_t counts_of_nibbles(unsigned mask) {
  const unsigned pairs = mask - (mask >> 1 & 0x5555u);
  const unsigned counts = (pairs & 0x3333u) + (pairs >> 2 & 0x3333u);
  const unsigned spread = (counts & 0xffu) | (counts & 0xff00u) << 8;
  return (spread & 0x000f000fu) | (spread & 0x00f000f0u) << 4;
}

// Lists the scores of vectors [begin, end) of a row that reach a rank, by ascending place:
// keep(number, score, place) for the first kCapacity of them. Gives how many there are. The block
// meets once a tile; what was kept it does not know yet. `tile` is the first.
template <class Rules, class Keep>
MLACHECK_DEVICE_FN std::uint32_t collect(TopK::Scratch& s, const TopKRow& row, TopKTile tile,
                                         std::uint32_t begin, std::uint32_t end, Rank rank,
                                         Keep keep) {
  static_assert(TopKTile::kVectors == 4);
  const unsigned lane = device::lane_index(), warp = device::warp_index();
  const Reach reach = Reach::of<Rules>(rank, row);
  std::uint32_t listed = 0;
  unsigned turn = 0;
  MLACHECK_ROLLED
  for (std::uint32_t from = begin; from < end; from += TopKTile::kOfBlock) {
    const std::uint32_t next = from + TopKTile::kOfBlock;
    TopKTile ahead = {};
    if (next < end) ahead = row.load_tile(next, end);  // on its way meanwhile
    unsigned mask = 0;
    MLACHECK_UNROLL
    for (unsigned u = 0; u < TopKTile::kVectors; ++u)
      mask |= reach.mask<Rules>(tile.x[u], tile.number(u)) << 4 * u;
    mask &= tile.valid;
    // Places ascend by warp, then vector, then lane: a byte for each vector's count in the warp.
    const std::uint32_t own = counts_of_nibbles(mask), sum = device::sum_to_lane(own);
    const std::uint32_t lanes_before = Rules::exclusive(sum, own);
    const std::uint32_t all = device::shuffle(sum, device::kWarpSize - 1);
    const std::uint32_t to_1 = all & 0xffu, to_2 = to_1 + (all >> 8 & 0xffu),
                        to_3 = to_2 + (all >> 16 & 0xffu), to_4 = to_3 + (all >> 24);
    if (lane == 0) device::store(device::shared(s.totals[turn][warp]), to_4);
    device::sync_block();
    const std::uint32_t warps =
        device::sum_to_lane(device::load(device::shared(s.totals[turn][lane])));
    turn ^= 1u;
    const std::uint32_t start = listed + sum_before_warp(warps, warp);
    listed += device::shuffle(warps, device::kWarpSize - 1);
    // Few: to load them again is less work than to choose among registers.
    MLACHECK_ROLLED
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const auto bit = static_cast<unsigned>(device::lowest_one(rest));
      const unsigned u = bit / 4, i = bit % 4;
      const std::uint32_t number =
          start + (u < 2 ? (u == 0 ? 0 : to_1) : (u == 2 ? to_2 : to_3)) +
          (lanes_before >> 8 * u & 0xffu) +
          static_cast<unsigned>(device::count_ones(mask >> 4 * u & ((1u << i) - 1)));
      const std::uint32_t place = row.place(tile.number(u)) + i;
      if (number < TopK::kCapacity) keep(number, row.load_one(place), place);
    }
    tile = ahead;
  }
  return listed;
}

// Calls visit(rank, whether it is one) for all scores of a row.
template <class Rules>
struct RanksOfRow {
  const TopKRow& row;

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_ROLLED
    for (std::uint32_t from = 0; from < row.vectors; from += TopKTile::kOfBlock) {
      const TopKTile tile = row.load_tile(from, row.vectors);
      MLACHECK_UNROLL
      for (unsigned i = 0; i < 4 * TopKTile::kVectors; ++i)
        visit(rank_of<Rules>(tile.x[i / 4].value[i % 4], row.place(tile.number(i / 4)) + i % 4),
              (tile.valid >> i & 1u) != 0);
    }
  }
};

// Ranks in a thread's registers; 0 stands for none.
struct HeldRanks {
  Rank rank[TopK::kPerThread] = {};

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_UNROLL
    for (const Rank held : rank) visit(held, held != 0);
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
  // In the middle between too few and too many; for a small k nearer to k.
  const std::uint32_t middle = (k + TopK::kCapacity) / 2, enough = 4 * k + 256;
  const std::uint32_t wanted = middle < enough ? middle : enough;
  // 100 of the sample tell the rest to a tenth; no more than kCapacity are looked at.
  constexpr int kMostPairsBits = std::bit_width(TopK::kCapacity / 8 - 1);
  const auto start = reinterpret_cast<std::uintptr_t>(row.origin) / sizeof(device::Floats4) % 2;
  const auto first = 2 - static_cast<std::uint32_t>(start);  // a vector of 32-byte alignment
  const std::uint32_t pairs = (row.vectors - 1 - first) / 2;
  const int least_step = device::bit_width(pairs) - kMostPairsBits;
  const int step_for_100 = device::bit_width(wanted / 100) - 1;
  const int step = least_step > step_for_100 ? least_step : step_for_100 > 0 ? step_for_100 : 0;
  constexpr unsigned kVectors = TopK::kPerThread / 4;
  device::Floats4 x[kVectors] = {};
  std::uint32_t number[kVectors] = {};  // of the vector; 0 where there is none
  MLACHECK_UNROLL
  for (unsigned j = 0; j < kVectors; ++j) {
    const std::uint32_t i = device::thread_index() + j * TopK::kThreads;
    if (i / 2 >= pairs >> step) continue;
    // Multiples of the golden ratio spread evenly.
    const std::uint32_t within = step == 0 ? 0 : i / 2 * 0x9e3779b9u >> (32 - step);
    number[j] = first + 2 * ((i / 2 << step) + within) + i % 2;
    x[j] = row.load(number[j]);
  }
  HeldRanks sample;
  MLACHECK_UNROLL
  for (unsigned j = 0; j < TopK::kPerThread; ++j)
    if (number[j / 4] != 0)
      sample.rank[j] = rank_of<Rules>(x[j / 4].value[j % 4], row.place(number[j / 4]) + j % 4);
  const std::uint32_t m = (wanted >> step) + 1;
  return find_threshold<Rules>(s, sample, 0, 32, m, m / 8, row.length);
}

}  // namespace mlacheck::kernels
