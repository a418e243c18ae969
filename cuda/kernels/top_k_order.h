#pragma once

#include "cuda/kernels/top_k_finish.h"
#include "cuda/kernels/top_k_list.h"

namespace mlacheck::kernels {

MLACHECK_DEVICE_FN void clear(TopKStream::Shared& shared) {
  clear(shared.scratch);
  if (device::thread_index() == 0) device::store(device::shared(shared.listed), 0);
}

// Selects the k best of what is listed in no order, and puts them in order: a bit in shared memory
// for each place of the row, where the tiles stood, and how many bits are set before each word.
template <class Rules>
class ListOrder {
  using K = TopKStream;
  static constexpr std::uint32_t kWords = K::kMostLength / 32;
  static_assert(kWords == 4 * TopK::kThreads);
  static_assert(sizeof(K::Shared::tiles) >= 2 * kWords * sizeof(std::uint32_t));

 public:
  MLACHECK_DEVICE_FN ListOrder(const TopKArguments& a, K::Shared& shared, const TopKRow& row,
                               const KeyDistances& distances, std::uint32_t candidates)
      : a_(a),
        shared_(shared),
        row_(row),
        distances_(distances),
        list_{shared},
        candidates_(candidates),
        marks_(device::shared(shared.tiles[0][0][0]).template as<std::uint32_t>()) {}

  // The block has met after what it lists, and sees to no tile any more.
  MLACHECK_DEVICE_FN void write() {
    device::store(own_words(marks_), {});
    list_.end(candidates_);
    const FoundBin bin = KeyDistances::find<Rules>(shared_.scratch, a_.k);
    device::sync_block();
    // What is in the last bin may be farther away than is listed.
    if (bin.in_bin <= K::kMostFew && !KeyDistances::is_last(bin.value))
      mark_by_bin(bin);
    else
      mark_by_rank(bin);
    device::sync_block();
    count();
    device::sync_block();
    std::int32_t* selected = selected_of_row(a_);
    list_.each(candidates_, [&](std::uint32_t, std::uint32_t place) {
      const std::uint32_t word = device::load(marks_ + place / 32), bit = 1u << place % 32;
      if ((word & bit) == 0) return;
      const std::uint32_t number = device::load(before() + place / 32) +
                                   static_cast<std::uint32_t>(device::count_ones(word & (bit - 1)));
      device::store(selected + number, row_.first + static_cast<std::int32_t>(place));
    });
  }

 private:
  MLACHECK_DEVICE_FN void mark(std::uint32_t place) const {
    device::atomic_add(marks_ + place / 32, 1u << place % 32);
  }

  // All of the bins above the k-th's, and of that bin those that are among the k best: a warp for
  // one of the few, each lane for two others.
  MLACHECK_DEVICE_FN void mark_by_bin(const FoundBin& bin) const {
    TopK::Scratch& s = shared_.scratch;
    list_.each(candidates_, [&](std::uint32_t distance, std::uint32_t place) {
      const std::uint32_t own = distances_.bin(distance);
      if (own > bin.value) mark(place);
      if (own != bin.value) return;
      const std::uint32_t i = device::atomic_add(device::shared(s.few), 1);
      device::store(device::shared(shared_.few[i]), {Rules::tie(place), distance});
    });
    device::sync_block();
    const unsigned lane = device::lane_index();
    const auto rank = [&](unsigned i) -> Rank {
      if (i >= bin.in_bin) return 0;
      const device::Words2 words = device::load(device::shared(shared_.few[i]));
      return Rank{words.word[1]} << 32 | words.word[0];
    };
    MLACHECK_ROLLED
    for (unsigned i = device::warp_index(); i < bin.in_bin; i += TopK::kWarps) {
      const Rank own = rank(i);
      std::uint32_t above = 0;
      MLACHECK_UNROLL
      for (unsigned j = 0; j < K::kMostFew; j += device::kWarpSize)
        above +=
            static_cast<std::uint32_t>(device::count_ones(device::ballot(rank(j + lane) > own)));
      if (lane == 0 && above < bin.remaining) mark(place_of<Rules>(own));
    }
  }

  // Where many share that bin: by the k-th best rank.
  MLACHECK_DEVICE_FN void mark_by_rank(const FoundBin& bin) const {
    TopK::Scratch& s = shared_.scratch;
    clear_bins(s);
    device::sync_block();
    const bool is_last = KeyDistances::is_last(bin.value);  // then whatever the key is
    const std::uint32_t low = is_last ? 0 : distances_.least + (bin.value << distances_.shift);
    const Rank least = find_threshold<Rules>(
        s, [&](auto visit) { each_rank([&](Rank rank) { visit(rank, true); }); }, low,
        is_last ? 32 : static_cast<int>(distances_.shift), is_last ? a_.k : bin.remaining, 0,
        row_.length);
    each_rank([&](Rank rank) {
      if (rank >= least) mark(place_of<Rules>(rank));
    });
  }
  template <class Visit>
  MLACHECK_DEVICE_FN void each_rank(Visit visit) const {
    list_.each(candidates_, [&](std::uint32_t distance, std::uint32_t place) {
      const std::uint32_t key = distance < KeyDistances::kMost ? distances_.least + distance
                                                               : Rules::key(row_.load_one(place));
      visit(Rank{key} << 32 | Rules::tie(place));
    });
  }

  // The bits before each word.
  MLACHECK_DEVICE_FN void count() const {
    const device::Words4 words = device::load(own_words(marks_));
    device::Words4 sums = {};
    std::uint32_t all = 0;
    MLACHECK_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums.word[i] = all;
      all += static_cast<std::uint32_t>(device::count_ones(words.word[i]));
    }
    const std::uint32_t of_others = sum_before_thread<Rules>(shared_.scratch, all);
    MLACHECK_UNROLL
    for (std::uint32_t& sum : sums.word) sum += of_others;
    device::store(own_words(before()), sums);
  }

  MLACHECK_DEVICE_FN device::SharedPointer<std::uint32_t> before() const { return marks_ + kWords; }
  static MLACHECK_DEVICE_FN device::SharedPointer<device::Words4> own_words(
      device::SharedPointer<std::uint32_t> of) {
    return (of + 4 * device::thread_index()).template as<device::Words4>();
  }

  const TopKArguments& a_;
  K::Shared& shared_;
  const TopKRow& row_;
  const KeyDistances& distances_;
  StreamList list_;
  std::uint32_t candidates_;
  device::SharedPointer<std::uint32_t> marks_;
};

}  // namespace mlacheck::kernels
