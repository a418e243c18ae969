#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "reference/oracle/sparse_attention_oracle.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck {

// How far a contract's softmax weights may lie from the oracle's, for every head and key of a
// token.
//
// A legal kernel computes weights p^_j = exp(s_j - m^) f_j for one m^ a row, |ln f_j| <= eta_j,
//
//   eta_j = e_j + u (2 |m| + 7 (m - s_j) + 4 headroom) + e_exp + r (e_exp + 4u) [+ splits]
//
//   e_j      g_qk A_j: the score
//   u (...)  argument of the exponential:
//              scale and log2(e) rounded, together or apart       3u |m - s_j|
//              the score before the difference                    u |s_j| <= u |m| + u |m - s_j|
//              the difference                                     u |m - s_j|
//              the rescales, whose arguments add up to m - s_j at most
//   r        rescales that a weight can pass, ceil(entries / tile)
//   splits   a merge by lse: e_exp + e_log + 6u + 4u (|lse| + |m - s_j| + ln n)
//
// A weight below the underflow threshold may be 0, f_j in [0, exp(eta_j)]. With E_j = max |f_j - 1|
// this gives bounds that hold to all orders: an error in numerator and denominator alike moves
//
//   o_i   by at most  sum_j w_j E_j |v_ji - o_i| / den,   den = sum_j w_j min f_j
//   ln l  by at most  max(ln(1 + sum_j w_j E_j), -ln den)
struct PerturbedWeights {
  RowMatrix moved;               // [H, n] w_j E_j / den
  Eigen::ArrayXd kappa;          // [H] sum_j moved
  Eigen::ArrayXd denominator;    // [H] den
  Eigen::ArrayXd log_sum_error;  // [H] of ln l
  Eigen::ArrayXd max_error;      // [H] of max_logit
  Eigen::ArrayXd max_magnitude;  // [H] bound of |m^|
};

PerturbedWeights perturbed_weights(const SparseAttentionOracle& oracle,
                                   const NumericsContract& contract);

// Rescales by a new maximum that the contract allows a row.
std::int64_t rescales(const SparseAttentionOracle& oracle, const NumericsContract& contract);

// Least positive magnitude that the contract's fp32 arithmetic keeps apart from 0.
double least_kept(const NumericsContract& contract);

}  // namespace mlacheck
