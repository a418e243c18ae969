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
    return mask_from<Rules>(x, early ? until : after, early && nan);
  }
  // The same with a threshold of its own; `any`: whatever the score is.
  template <class Rules>
  static MLACHECK_DEVICE_FN unsigned mask_from(const device::Floats4& x, float least, bool any) {
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
// keep(number, score, place). Gives how many there are; where these are more than kCapacity, not
// all are kept. The block meets once a tile; what was kept it does not know yet. `first` is the
// first tile.
template <class Rules, class Keep>
MLACHECK_DEVICE_FN std::uint32_t collect(TopK::Scratch& s, const TopKRow& row, TopKTile first,
                                         std::uint32_t begin, std::uint32_t end, Rank rank,
                                         Keep keep) {
  static_assert(TopKTile::kVectors == 4);
  const unsigned lane = device::lane_index(), warp = device::warp_index();
  const Reach reach = Reach::of<Rules>(rank, row);
  std::uint32_t listed = 0;
  const auto list = [&](const TopKTile& tile, std::uint32_t from, unsigned turn) {
    unsigned mask = 0;
    MLACHECK_UNROLL
    for (unsigned u = 0; u < TopKTile::kVectors; ++u)
      mask |= reach.mask<Rules>(tile.x[u], TopKTile::number(from, u)) << 4 * u;
    mask &= row.valid(from, end);
    // Places ascend by warp, then vector, then lane: a byte for each vector's count in the warp.
    const std::uint32_t own = counts_of_nibbles(mask), sum = device::sum_to_lane(own);
    const std::uint32_t lanes_before = Rules::exclusive(sum, own);
    const std::uint32_t all = device::shuffle(sum, device::kWarpSize - 1);
    if (lane == 0)
      device::store(device::shared(s.totals[turn][warp]),
                    (all & 0xffu) + (all >> 8 & 0xffu) + (all >> 16 & 0xffu) + (all >> 24));
    device::sync_block();
    const std::uint32_t warps =
        device::sum_to_lane(device::load(device::shared(s.totals[turn][lane])));
    std::uint32_t start = listed + sum_before_warp(warps, warp);
    listed += device::shuffle(warps, device::kWarpSize - 1);
    if (listed > TopK::kCapacity) mask = 0;  // nobody will look at them
    MLACHECK_UNROLL
    for (unsigned u = 0; u < TopKTile::kVectors; ++u) {
      std::uint32_t number = start + (lanes_before >> 8 * u & 0xffu);
      start += all >> 8 * u & 0xffu;
      MLACHECK_UNROLL
      for (unsigned i = 0; i < 4; ++i) {
        if ((mask >> (4 * u + i) & 1u) == 0) continue;
        keep(number, tile.x[u].value[i], row.place(TopKTile::number(from, u)) + i);
        ++number;
      }
    }
  };
  // The next tile is on its way while one is listed. In registers of its own: to move it is to wait
  // for it.
  TopKTile other = {};
  MLACHECK_ROLLED
  for (std::uint32_t from = begin; from < end; from += 2 * TopKTile::kOfBlock) {
    const std::uint32_t second = from + TopKTile::kOfBlock, third = second + TopKTile::kOfBlock;
    if (second < end) other = row.load_tile(second, end);
    list(first, from, 0);
    if (second >= end) break;
    if (third < end) first = row.load_tile(third, end);
    list(other, second, 1);
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
      const unsigned valid = row.valid(from, row.vectors);
      MLACHECK_UNROLL
      for (unsigned i = 0; i < 4 * TopKTile::kVectors; ++i)
        visit(rank_of<Rules>(tile.x[i / 4].value[i % 4],
                             row.place(TopKTile::number(from, i / 4)) + i % 4),
              (valid >> i & 1u) != 0);
    }
  }
};

// Ranks in a thread's registers; 0 stands for none. The second half is looked at where any thread
// has one there.
struct HeldRanks {
  static constexpr unsigned kHalf = TopK::kPerThread / 2;
  Rank rank[2][kHalf] = {};
  bool both = false;

  template <class Visit>
  MLACHECK_DEVICE_FN void operator()(Visit visit) const {
    MLACHECK_UNROLL
    for (const Rank held : rank[0]) visit(held, held != 0);
    if (!both) return;
    MLACHECK_UNROLL
    for (const Rank held : rank[1]) visit(held, held != 0);
  }
};

// Scores that stand for a row which a block cannot hold: 32 bytes of each 2^step, as little as
// memory reads, at a place that varies, so that no period of the scores meets its own.
template <class Rules>
struct TopKSample {
  HeldRanks ranks;
  std::uint32_t wanted = 0;  // of them should reach the threshold

  MLACHECK_DEVICE_FN TopKSample(const TopKRow& row, std::uint32_t k) {
    if (row.length <= TopK::kCapacity) return;
    const auto start = reinterpret_cast<std::uintptr_t>(row.origin) / sizeof(device::Floats4) % 2;
    const auto first = 2 - static_cast<std::uint32_t>(start);  // a vector of 32-byte alignment
    const std::uint32_t pairs = (row.vectors - 1 - first) / 2;
    // No more than kCapacity scores are looked at.
    constexpr int kMostPairsBits = std::bit_width(TopK::kCapacity / 8 - 1);
    const int least_step = device::bit_width(pairs) - kMostPairsBits;
    // 100 of the sample tell the rest to a tenth: half as many again as k are enough. Where it
    // cannot have so many: the middle between too few and too many; for a small k nearer to k.
    std::uint32_t candidates = k + k / 2 + TopK::kCapacity / 16;
    if (step_for_100(candidates) < least_step) {
      const std::uint32_t middle = (k + TopK::kCapacity) / 2, enough = 4 * k + 256;
      candidates = middle < enough ? middle : enough;
    }
    const int finest = step_for_100(candidates);
    const int step = least_step > finest ? least_step : finest;
    wanted = (candidates >> step) + 1;
    const std::uint32_t sampled = 2 * (pairs >> step);
    ranks.both = sampled > TopK::kThreads;
    device::Floats4 x[2] = {};
    std::uint32_t number[2] = {};  // of the vector; 0 where there is none
    MLACHECK_UNROLL
    for (unsigned j = 0; j < 2; ++j) {
      const std::uint32_t i = device::thread_index() + j * TopK::kThreads;
      if (i >= sampled) continue;
      // Multiples of the golden ratio spread evenly; those of other rows elsewhere, lest all rows
      // want the same part of memory at a time.
      const std::uint32_t within =
          step == 0 ? 0 : (i / 2 + 29 * device::block_index()) * 0x9e3779b9u >> (32 - step);
      number[j] = first + 2 * ((i / 2 << step) + within) + i % 2;
      x[j] = row.load(number[j]);
    }
    MLACHECK_UNROLL
    for (unsigned j = 0; j < 2; ++j) MLACHECK_UNROLL
    for (unsigned i = 0; i < HeldRanks::kHalf; ++i)
      if (number[j] != 0)
        ranks.rank[j][i] = rank_of<Rules>(x[j].value[i], row.place(number[j]) + i);
  }

 private:
  static MLACHECK_DEVICE_FN int step_for_100(std::uint32_t candidates) {
    const int step = device::bit_width(candidates / 100) - 1;
    return step > 0 ? step : 0;
  }
};

// A rank that, one may hope, at least k scores of the row reach and at most kCapacity. Where all of
// them fit: the least.
template <class Rules>
MLACHECK_DEVICE_FN Rank guess_threshold(TopK::Scratch& s, const TopKRow& row,
                                        const TopKSample<Rules>& sample) {
  if (row.length <= TopK::kCapacity) return 0;
  return find_threshold<Rules>(s, sample.ranks, 0, 32, sample.wanted, sample.wanted / 8,
                               row.length);
}

}  // namespace mlacheck::kernels
