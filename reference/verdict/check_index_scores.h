#pragma once

#include <cstdint>
#include <vector>

#include "reference/oracle/index_scores_oracle.h"
#include "reference/verdict/interval.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// How far index scores under a contract may lie from the oracle, keys [oracle.begin, oracle.end).
// ReLU is 1-Lipschitz, so
//
//   core = (g_heads + 2u) (heads + g_dot dots) + g_dot dots + (dim + heads) h (unit + 1)
//          + oracle's radius
//
// with 2u for the product and the key's scale (before or after the sum over heads), and h for what
// an operation may lose below fp32's normal range (least_kept). A NaN or Inf of
// the inputs is exact; where sums may overflow in fp32 anything goes.
std::vector<ElementBound> index_score_bounds(const IndexScoresOracle& oracle,
                                             const IndexScoresProblem& problem,
                                             const NumericsContract& contract);

// Scores and radii that the top-k rule takes: the box that holds whatever a kernel of this contract
// computes and stores. A score that may be anything has an infinite radius.
struct ScoreBoxes {
  std::vector<double> score;
  std::vector<double> radius;
};
ScoreBoxes score_boxes(const std::vector<ElementBound>& bounds, DType score_dtype);

// Judges scores [T, key_count] against their bounds; outside a row's range they must be -inf if the
// contract masks them. The finding is "index_scores".
Finding check_index_scores(const IndexScoresProblem& problem, const NumericsContract& contract,
                           const float* scores);

// Where nothing was to be written outside of the rows' ranges: every score there must have all bits
// of `before`. The finding is "index_scores outside".
Finding check_scores_outside(const IndexScoresProblem& problem, const float* scores,
                             std::uint32_t before);

}  // namespace mlacheck
