#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "reference/operators/sparse_attention.h"

namespace mlacheck {

// fp64 answer of sparse attention for one token, all heads, with the sums that error bounds are
// made of.
//
//   s_j = sm_scale * q . k_j
//   A_j = |sm_scale| * sum_d |q_d| |k_jd|
//   w_j = exp(s_j - lse)
//   o_i = sum_j w_j v_ji
//   V_i = sum_j w_j |v_ji|
//   out = o * sink_factor
//
// Inputs are read as they are stored (fp64 holds them exactly). The answers' own radii are a-priori
// gamma bounds of fp64 sums in any order, from the same magnitudes; libm's exp and log are taken as
// 2 ulp. First-order terms in 2^-53 are exact, their products (below 2^-80) are covered by a factor
// 1 + 2^-20.
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Whether a repeated index attends as often as it stands (the operator) or once (mask-based code).
enum class Duplicates { counted, counted_once };

// What NaN and Inf among the selected keys leave of a head's row.
enum class RowKind {
  empty,      // no present entry: out 0, lse by convention
  finite,     // every score is finite, or -inf beside finite ones (weight exactly 0)
  nan,        // a score is NaN or +inf: inf - inf, so every weight is NaN
  no_weight,  // every score is -inf: 0 / 0, or an empty row to kernels that mask by -inf
};

struct SparseAttentionOracle {
  std::int64_t keys = 0;    // present entries n
  std::int64_t length = 0;  // entries that a kernel walks: topk or topk_length
  std::int64_t qk_dim = 0;
  RowMatrix value;           // [n, v_dim]
  RowMatrix score;           // [H, n] natural units
  RowMatrix gauge;           // [H, n] A_j
  RowMatrix weight;          // [H, n]
  RowMatrix mean;            // [H, v_dim] o
  RowMatrix magnitude;       // [H, v_dim] V
  RowMatrix squares;         // [H, v_dim] sum_j (w_j v_ji)^2, keys of equal score taken together
  RowMatrix radius;          // [H, v_dim] of mean
  Eigen::ArrayXd value_sum;  // [v_dim] sum_j |v_ji|
  Eigen::ArrayXd weight_squares;  // [H] sum_j w_j^2, keys of equal score taken together
  Eigen::ArrayXd score_spread;    // [H] standard deviation of s under w
  Eigen::ArrayXd max_logit;       // [H] max_j s_j
  Eigen::ArrayXd max_logit_radius;
  Eigen::ArrayXd weight_sum;  // [H] l = sum_j exp(s_j - max_logit)
  Eigen::ArrayXd lse;         // [H] natural log, over the keys alone
  Eigen::ArrayXd lse_radius;
  Eigen::ArrayXd sink;         // [H] logit, -inf where the problem has none
  Eigen::ArrayXd sink_factor;  // [H] 1 / (1 + exp(sink - lse))
  std::vector<RowKind> kind;   // [H]
  // Columns in which a selected value is NaN or Inf; it stands as 0 in `value`. A value is part of
  // its key, so in a finite row such a key has a score of -inf and a weight of exactly 0.
  std::vector<std::int64_t> special_columns;
  double dot_scale = 0;          // |sm_scale|
  Eigen::ArrayXd largest_gauge;  // [H] max_j sum_d |q_d| |k_jd|, without sm_scale
};

// Throws std::invalid_argument like sparse_attention.
SparseAttentionOracle sparse_attention_oracle(const SparseAttentionProblem& problem, std::int64_t t,
                                              Duplicates duplicates = Duplicates::counted);

// Bound of |s_j computed in fp64 - s_j|, relative to A_j.
double oracle_score_error(std::int64_t qk_dim);

}  // namespace mlacheck
