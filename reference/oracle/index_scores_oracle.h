#pragma once

#include <cstdint>
#include <vector>

#include "reference/operators/index_scores.h"

namespace mlacheck {

// fp64 index scores of one row, keys [begin, end), with the sums that error bounds are made of.
//
//   score_s = scale_s * sum_h a_h relu(q_h . k_s)
//   dots_s  = |scale_s| * sum_h |a_h| * sum_d |q_hd| |k_sd|   gauge of the dot products
//   heads_s = |scale_s| * sum_h |a_h| * relu(q_h . k_s)       gauge of the sum over heads
//   unit_s  = |scale_s| * sum_h |a_h|                         cost of an absolute error of a dot
//
// radius: a-priori gamma bound of the fp64 sums in any order. NaN and Inf of the inputs reach
// score, and radius is then 0. Every vector counts from `begin`.
struct IndexScoresOracle {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<double> score;
  std::vector<double> radius;
  std::vector<double> dots;
  std::vector<double> heads;
  std::vector<double> unit;
  std::vector<double> peak;  // largest magnitude that any sum of any order can pass through
};

// The problem must be one that index_scores accepts; a token out of range throws
// std::invalid_argument.
IndexScoresOracle index_scores_oracle(const IndexScoresProblem& problem, std::int64_t t);

}  // namespace mlacheck
