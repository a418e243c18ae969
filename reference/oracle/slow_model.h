#pragma once

#include <cstdint>
#include <vector>

#include "reference/operators/index_scores.h"
#include "reference/operators/sparse_attention.h"

namespace mlacheck {

// The operators once more, in long double and three naive loops, straight from their formulas: who
// checks the oracle. Shares with it only the decoding of number formats. Finite inputs.
struct SlowAttention {
  std::vector<long double> out;  // [v_dim]
  long double lse;
  long double max_logit;
};

SlowAttention slow_sparse_attention(const SparseAttentionProblem& problem, std::int64_t t,
                                    std::int64_t h);

// score[t, s], -inf outside the row's range.
long double slow_index_score(const IndexScoresProblem& problem, std::int64_t t, std::int64_t s);

}  // namespace mlacheck
