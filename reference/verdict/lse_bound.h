#pragma once

#include <cstdint>

#include "reference/oracle/sparse_attention_oracle.h"
#include "reference/verdict/interval.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/perturbed_weights.h"

namespace mlacheck {

// Bound of a finite row's lse over the keys alone, natural log:
//   ln-sum error of the weights + g_l + e_log (1 + |ln l| + headroom) + 4u (|lse| + |m|)
ElementBound natural_lse_bound(const SparseAttentionOracle& oracle,
                               const NumericsContract& contract, const PerturbedWeights& weights,
                               std::int64_t h, double lambda);

// The same in the contract's conventions: with the sink, in base 2.
ElementBound declared_lse_bound(const SparseAttentionOracle& oracle,
                                const NumericsContract& contract, std::int64_t h,
                                ElementBound natural);

// lse of an empty row by the contract.
double empty_lse(const NumericsContract& contract);

// Error that all weights of a row have in common when they are too alike to round independently;
// over a spread of many roundings it averages out. Relative; 0 for fp32 weights.
double common_weight_error(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                           std::int64_t h);

// Whether a weight's rounding is independent of its value, as the statistical bound takes it to be.
// It is not where a key has few coordinates: with one, its value says what its score is, and so its
// weight. Of 4096 clean rows of 2048 keys with bf16 weights some are outside that bound with 1 to 4
// coordinates, none with 6, 8 or 16.
bool roundings_are_independent(const SparseAttentionOracle& oracle);

// statistical(...) of a sum over the row's keys in fp32. Terms of a few units in the last place of
// the sum all round alike, away if they are smaller still: their share of the worst case is likely.
double likely_sum_error(const Accumulation& sum, const SparseAttentionOracle& oracle,
                        std::int64_t h, std::int64_t merges, double lambda);

// Unit roundoff and subnormal floor of the contract's weights; 0 where they are not rounded.
double weight_roundoff(const NumericsContract& contract);
double weight_floor(const NumericsContract& contract);

}  // namespace mlacheck
