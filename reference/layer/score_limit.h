#pragma once

#include <cstdint>

#include "reference/operators/require.h"

namespace mlacheck {

// Index scores of a layer, and selected indices: of 32,768 tokens at once, whose scores take 4 GiB.
inline constexpr std::int64_t kMostScores = std::int64_t{1} << 30;

// Throws std::invalid_argument where a layer would have more; attention_layer() asks before it
// takes any memory.
inline void require_scores(std::int64_t queries, std::int64_t keys, std::int64_t topk) {
  const auto fits = [&](std::int64_t each) { return each == 0 || queries <= kMostScores / each; };
  detail::require(fits(keys),
                  "{} queries of {} keys: expected at most {} index scores in all (4 GiB)", queries,
                  keys, kMostScores);
  detail::require(fits(topk),
                  "{} queries with index_topk {}: expected at most {} indices in all (4 GiB)",
                  queries, topk, kMostScores);
}

}  // namespace mlacheck
