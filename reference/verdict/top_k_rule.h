#pragma once

#include <cstdint>
#include <span>

#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// The exact, margin-aware test of a selection T out of n keys whose true scores are s_j and whose
// computed ones lie in [s_j - e_j, s_j + e_j]. T is a top-k of some computed scores if and only if
//
//   |T| = min(k, n), no duplicates, all in range, padded with -1 at the end, and
//   min over T of (s_i + e_i)  >=  max over the rest of (s_j - e_j)
//
// (raise every member to its upper end and lower every other: the assignment that favours T most).
// O(n). NaN scores rank below or above every number, as the contract says.
//
// selected [k]: indices that count from the same 0 as `begin`, the index of scores[0]. A failed
// margin names its pair: worst = {member, left out}, ratio = gap / (e_i + e_j) > 1. The finding is
// "top_k".
Finding check_top_k(std::span<const std::int32_t> selected, std::int64_t begin,
                    std::span<const double> scores, std::span<const double> radii,
                    const NumericsContract& contract);

// The selection must be an exact top-k of the kernel's own scores, ties by the contract's rule. The
// finding is "top_k.own_scores".
Finding check_top_k_of_own_scores(std::span<const std::int32_t> selected, std::int64_t begin,
                                  std::span<const float> own_scores,
                                  const NumericsContract& contract);

}  // namespace mlacheck
