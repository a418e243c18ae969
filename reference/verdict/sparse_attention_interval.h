#pragma once

#include <cstdint>
#include <vector>

#include "reference/oracle/sparse_attention_oracle.h"
#include "reference/verdict/interval.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck {

// How far sparse attention under a numerics contract may lie from the oracle, for one token
// (weights, eta, kappa and den: perturbed_weights.h).
//
//   C_i    = sum_j w_j E_j |v_ji - o_i| / den        weights wrong in numerator, denominator alike
//   V'_i   = V_i (1 + kappa) + C_i + |o_i| kappa     bounds the kernel's own sum of magnitudes
//   N_i    = u_P V'_i + h_P sum_j |v_ji| / (l den)   weights rounded to type P, numerator alone
//          + g_pv V'_i + u_part V'_i                 value product; stored partials
//   core_i = factor ((C_i + N_i) (1 + tau) + tau |o_i| + oracle's radius)
//   tau    = g_l + 4u (10u with splits)              sum of weights, division; merge
//
// and the sink's factor has a relative error of its own. `likely` replaces
//
//   u_P V'         by  lambda u_P / sqrt(3) sqrt(sum_j (w_j v_ji)^2)
//                      + |o_i| times the error that alike weights have in common
//   g_pv V', g_l   by  likely_sum_error(...)
//
// unless keys have few coordinates (roundings_are_independent): then it is core.
struct SparseAttentionInterval {
  DType out_dtype = DType::bf16;
  RowMatrix expected;  // [H, v_dim]
  RowMatrix core;
  RowMatrix likely;
  std::vector<Admissible> admissible;   // [H, v_dim]
  std::vector<ElementBound> lse;        // [H], in the contract's base and conventions; fp32
  std::vector<ElementBound> max_logit;  // [H], natural units; fp32

  ElementBound out(std::int64_t h, std::int64_t c) const {
    return {expected(h, c), core(h, c), likely(h, c),
            admissible[static_cast<std::size_t>(h * expected.cols() + c)]};
  }
};

// Throws std::invalid_argument when the contract makes no sense.
SparseAttentionInterval sparse_attention_interval(const SparseAttentionOracle& oracle,
                                                  const NumericsContract& contract,
                                                  double lambda = kLambda);

// A sink's factor 1 / (1 + exp(sink - lse)) below this may come out as 0 in fp32.
inline constexpr double kTinySinkFactor = 0x1p-100;

}  // namespace mlacheck
