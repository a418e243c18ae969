#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda/device/arithmetic.h"
#include "cuda/device/memory.h"

namespace mlacheck::kernels {

struct TopK {
  static constexpr unsigned kThreads = 1024;
  static constexpr unsigned kWarps = kThreads / device::kWarpSize;
  static constexpr std::uint32_t kCapacity = 8192;  // candidates that a block can choose from
  static constexpr std::uint32_t kPerThread = kCapacity / kThreads;
  // Twice as many candidates fit: room for a guess to be wrong.
  static constexpr std::uint32_t kMostSelected = kCapacity / 2;
  static constexpr std::uint32_t kMostSlices = 32;  // of a row: a warp gathers each
  static constexpr int kDigitBits = 11;
  static constexpr std::uint32_t kBins = 1u << kDigitBits;
  static_assert(kWarps == kMostSlices && kWarps == device::kWarpSize);
  static_assert(kBins % kThreads == 0 && kPerThread == 8);

  struct Scratch {
    std::uint32_t bins[kBins];               // all 0 between their uses
    std::uint32_t totals[2][kWarps];         // of warps; two, to be used in turn
    std::uint32_t digit, remaining, in_bin;  // what find_bin found
    std::uint32_t largest, largest_inverse;  // of the candidates' keys, and of ~key
    std::uint32_t few;                       // ranks in `ranks`
    device::Words2 ranks[device::kWarpSize];
  };
  // Candidates by ascending place.
  struct Shared {
    Scratch scratch;
    alignas(16) float score[kCapacity];
    alignas(16) std::uint32_t place[kCapacity];
  };
  static_assert(sizeof(Shared) <= device::kSharedMemoryLimit);
};

// One that reached the threshold: its score's bits, and where it stands in its row's range.
using Candidate = device::Words2;

// What the top_k kernels get (the contract: cuda/include/mlacheck_kernel.h).
struct TopKArguments {
  const float* scores;
  std::int64_t score_stride;
  const std::int32_t* row_begin;  // [rows], or null: 0 and columns
  const std::int32_t* row_end;
  std::int32_t columns;
  std::uint32_t k;  // 1 ... kMostSelected
  std::int32_t* selected;
  device::Divisor slices;    // blocks that share a row
  Candidate* candidates;     // [rows][slices][kCapacity]
  std::uint32_t* collected;  // [rows][slices]: how many reached the threshold, also past kCapacity
};

// A score's place among all of its row, as an integer: larger is better, and no two are alike. The
// upper half is the score's key, the lower one decides between equal scores.
using Rank = std::uint64_t;

// What a wrong kernel could have otherwise: tests make such kernels.
struct TopKRules {
  // NaN is 0, below -inf; -0 and +0 are one value.
  static MLACHECK_DEVICE_FN std::uint32_t key(float score) {
    if (score != score) return 0;
    const auto bits = std::bit_cast<std::uint32_t>(device::add(score, 0.0f));
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  }
  // The lowest place wins. Its own inverse.
  static MLACHECK_DEVICE_FN std::uint32_t tie(std::uint32_t place) { return ~place; }
  static MLACHECK_DEVICE_FN bool reaches(float score, float least) { return score >= least; }
  static MLACHECK_DEVICE_FN std::uint32_t exclusive(std::uint32_t inclusive, std::uint32_t own) {
    return inclusive - own;
  }
};

template <class Rules>
MLACHECK_DEVICE_FN Rank rank_of(float score, std::uint32_t place) {
  return Rank{Rules::key(score)} << 32 | Rules::tie(place);
}
template <class Rules>
MLACHECK_DEVICE_FN std::uint32_t place_of(Rank rank) {
  return Rules::tie(static_cast<std::uint32_t>(rank));
}
MLACHECK_DEVICE_FN std::uint32_t key_of(Rank rank) {
  return static_cast<std::uint32_t>(rank >> 32);
}

}  // namespace mlacheck::kernels
