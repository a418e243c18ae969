#pragma once

#include "cuda/kernels/top_k_guess.h"

namespace mlacheck::kernels {

// How far a key is from the least that is listed, up to 2^31 - 1: more only where the least is
// negative. And bins for the distances: fine ones, and the sums of each 32 of them, in s.bins. The
// last has also all that is farther.
struct KeyDistances {
  static constexpr int kBits = 31;
  static constexpr std::uint32_t kMost = (1u << kBits) - 1;  // or more
  static constexpr std::uint32_t kFine = 1024, kOfCoarse = device::kWarpSize, kCoarse = kFine;
  static_assert(kFine / kOfCoarse == device::kWarpSize && kCoarse + kOfCoarse <= TopK::kBins);

  std::uint32_t least;
  std::uint32_t shift;

  MLACHECK_DEVICE_FN KeyDistances(std::uint32_t least_key, std::uint32_t largest_key)
      : least(least_key) {
    const int bits = device::bit_width(largest_key > least ? largest_key - least : 0);
    constexpr int kOfBin = std::bit_width(kFine) - 1;
    shift = static_cast<std::uint32_t>(bits < kOfBin ? 0 : (bits < kBits ? bits : kBits) - kOfBin);
  }
  MLACHECK_DEVICE_FN std::uint32_t of(std::uint32_t key) const {
    return key - least < kMost ? key - least : kMost;
  }
  MLACHECK_DEVICE_FN std::uint32_t bin(std::uint32_t distance) const {
    return distance >> shift < kFine ? distance >> shift : kFine - 1;
  }
  MLACHECK_DEVICE_FN static bool is_last(std::uint32_t bin) { return bin == kFine - 1; }
  MLACHECK_DEVICE_FN void count(TopK::Scratch& s, std::uint32_t distance, bool counts) const {
    const std::uint32_t fine = bin(distance);
    if (!counts) return;
    device::atomic_add(device::shared(s.bins[fine]), 1);
    device::atomic_add(device::shared(s.bins[kCoarse + fine / kOfCoarse]), 1);
  }
  // The bin of the m-th largest. Each warp finds it by itself.
  template <class Rules>
  MLACHECK_DEVICE_FN static FoundBin find(TopK::Scratch& s, std::uint32_t m) {
    const FoundBin coarse = find_of_lanes<Rules>(s, kCoarse, m);
    FoundBin fine = find_of_lanes<Rules>(s, coarse.value * kOfCoarse, coarse.remaining);
    fine.value += coarse.value * kOfCoarse;
    return fine;
  }

 private:
  // Of the bins from `first` on, a lane each.
  template <class Rules>
  MLACHECK_DEVICE_FN static FoundBin find_of_lanes(TopK::Scratch& s, std::uint32_t first,
                                                   std::uint32_t m) {
    const std::uint32_t bin = device::kWarpSize - 1 - device::lane_index();
    const std::uint32_t count = device::load(device::shared(s.bins[first + bin]));
    const std::uint32_t sum = device::sum_to_lane(count), above = Rules::exclusive(sum, count);
    const auto found =
        static_cast<unsigned>(device::lowest_one(device::ballot(above < m && m <= sum)));
    return {device::kWarpSize - 1 - found, m - device::shuffle(above, found),
            device::shuffle(count, found)};
  }
};

// The list: of each candidate 6 bytes, so that nearly twice as many fit as are wanted.
struct StreamList {
  using K = TopKStream;
  static constexpr int kPlaceBits = std::bit_width(K::kMostLength - 1);
  static constexpr std::uint32_t kPlaces = 1u << kPlaceBits;
  static constexpr int kMoreBits = KeyDistances::kBits - (32 - kPlaceBits);
  static_assert(kMoreBits == 16);

  K::Shared& shared;

  MLACHECK_DEVICE_FN device::SharedPointer<std::uint32_t> word(std::uint32_t i) const {
    return device::shared(shared.list[i]);
  }
  MLACHECK_DEVICE_FN void store(std::uint32_t i, std::uint32_t distance,
                                std::uint32_t place) const {
    device::store(word(i), distance << kPlaceBits | place);
    device::store(device::shared(shared.more_of_list[i]),
                  static_cast<std::uint16_t>(distance >> (32 - kPlaceBits)));
  }
  // Once it is known how many there are: what is read together is written.
  MLACHECK_DEVICE_FN void end(std::uint32_t count) const {
    const std::uint32_t i = count + device::thread_index();
    if (device::thread_index() < 4 && i < K::kCapacity) store(i, 0, 0);
  }
  // Calls visit(distance, place) for each of the first `count`, by one thread.
  template <class Visit>
  MLACHECK_DEVICE_FN void each(std::uint32_t count, Visit visit) const {
    static_assert(K::kCapacity % 4 == 0);
    MLACHECK_ROLLED
    for (std::uint32_t i = 4 * device::thread_index(); i < count; i += 4 * TopK::kThreads) {
      const auto words = device::load(word(i).as<device::Words4>());
      const auto more = device::load(device::shared(shared.more_of_list[i]).as<device::Words2>());
      MLACHECK_UNROLL
      for (unsigned j = 0; j < 4; ++j)
        if (i + j < count)
          visit(words.word[j] >> kPlaceBits | (more.word[j / 2] >> 16 * (j % 2) & 0xffffu)
                                                  << (32 - kPlaceBits),
                words.word[j] % kPlaces);
    }
  }
};

// Lists the scores of a row that reach a rank, in no order, and counts them in shared.listed; where
// these are more than kCapacity, not all are kept.
template <class Rules>
class RowLister {
  using K = TopKStream;

 public:
  MLACHECK_DEVICE_FN RowLister(K::Shared& shared, const TopKRow& row, Rank rank)
      : shared_(shared),
        row_(row),
        reach_(Reach::of<Rules>(rank, row)),
        distances_(key_of(rank), device::load(device::shared(shared.scratch.largest))),
        list_{shared} {}

  MLACHECK_DEVICE_FN const KeyDistances& distances() const { return distances_; }

  MLACHECK_DEVICE_FN void list(RowStream& stream) {
    if (stream.streams()) {
      stream.each_tile(row_, [&](std::uint32_t first, device::SharedPointer<float> tile) {
        list_tile(stream, first, tile);
      });
    } else {
      stream.each_of_rest(row_, [&](std::uint32_t number) { list_vector(number); });
    }
  }

 private:
  MLACHECK_DEVICE_FN void list_tile(const RowStream& stream, std::uint32_t first,
                                    device::SharedPointer<float> tile) {
    const unsigned lane = stream.lane();
    unsigned mask = mask_of(first, tile, lane);
    // How many the lanes before have, and all of them: nearly always 0 ... 3 each.
    const auto own = static_cast<std::uint32_t>(device::count_ones(mask));
    const unsigned lower = (1u << lane) - 1;
    const unsigned ones = device::ballot((own & 1) != 0), twos = device::ballot((own & 2) != 0);
    auto before = static_cast<std::uint32_t>(device::count_ones(ones & lower) +
                                             2 * device::count_ones(twos & lower));
    auto all = static_cast<std::uint32_t>(device::count_ones(ones) + 2 * device::count_ones(twos));
    if (device::any(own > 3)) {
      MLACHECK_ROLLED
      for (unsigned bit = 2; bit < 4; ++bit) {
        const unsigned more = device::ballot((own >> bit & 1) != 0);
        before += static_cast<std::uint32_t>(device::count_ones(more & lower)) << bit;
        all += static_cast<std::uint32_t>(device::count_ones(more)) << bit;
      }
    }
    std::uint32_t start = 0;
    if (lane == 0) start = device::atomic_add(device::shared(shared_.listed), all);
    start = device::shuffle(start, 0);
    std::uint32_t end = start + all;
    if (end > K::kCapacity) mask = end = 0;  // nobody will look at them

    // The lanes, which have few or none each, put side by side where theirs stand; then they share
    // the work evenly.
    std::uint32_t at = start + before;
    MLACHECK_ROLLED
    while (device::any(mask != 0)) {
      const unsigned others = mask & (mask - 1);
      if (mask != 0) device::store(list_.word(at), (mask ^ others) | lane << 16);
      mask = others;
      ++at;
    }
    device::sync_warp();
    MLACHECK_ROLLED
    for (std::uint32_t i = start + lane; i - lane < end; i += device::kWarpSize) {
      const bool is_one = i < end;
      std::uint32_t code = 1;
      if (is_one) code = device::load(list_.word(i));
      const auto bit = static_cast<std::uint32_t>(device::lowest_one(code));
      const std::uint32_t n = (bit / 4 * device::kWarpSize + code / 65'536) * 4 + bit % 4;
      const std::uint32_t distance = distances_.of(Rules::key(device::load(tile + n)));
      if (is_one) list_.store(i, distance, row_.place(first) + n);
      distances_.count(shared_.scratch, distance, is_one);
    }
  }

  // Bit 4 u + i: score i of the lane's vector u reaches the threshold, or is equal to it and stands
  // in the same tile.
  MLACHECK_DEVICE_FN unsigned mask_of(std::uint32_t first, device::SharedPointer<float> tile,
                                      unsigned lane) const {
    const bool early = first <= reach_.last_vector, any = early && reach_.nan;
    const float least = early ? reach_.until : reach_.after;
    unsigned mask = 0;
    MLACHECK_UNROLL
    for (unsigned u = 0; u < K::kVectors; ++u) {
      const auto x = tile + 4 * (u * device::kWarpSize + lane);
      mask |= Reach::mask_from<Rules>(device::load(x.template as<device::Floats4>()), least, any)
              << 4 * u;
    }
    return mask;
  }

  MLACHECK_DEVICE_FN void list_vector(std::uint32_t number) {
    const bool whole = number >= row_.whole_begin() && number < row_.whole_end();
    device::Floats4 x = {};
    if (whole) x = row_.load(number);
    unsigned valid = 0;
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      if (row_.place(number) + i >= row_.length) continue;
      valid |= 1u << i;
      if (!whole) x.value[i] = row_.load_one(row_.place(number) + i);
    }
    const unsigned mask = reach_.mask<Rules>(x, number) & valid;
    MLACHECK_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      if ((mask >> i & 1) == 0) continue;
      const std::uint32_t distance = distances_.of(Rules::key(x.value[i]));
      const std::uint32_t at = device::atomic_add(device::shared(shared_.listed), 1);
      if (at < K::kCapacity) list_.store(at, distance, row_.place(number) + i);
      distances_.count(shared_.scratch, distance, true);
    }
  }

  K::Shared& shared_;
  const TopKRow& row_;
  Reach reach_;
  KeyDistances distances_;
  StreamList list_;
};

}  // namespace mlacheck::kernels
