#pragma once

#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/perturbed_weights.h"
#include "reference/verdict/sparse_attention_interval.h"

namespace mlacheck::detail {

// Where NaN, Inf and empty rows must or may appear: everything in the interval that is not a number
// with a radius.
//
//   no present entry              out +0, lse by convention, max_logit -inf
//   a NaN or +inf score           out and lse NaN
//   only -inf scores              as an empty row, or NaN
//   Inf in a value                its score is -inf and its weight 0 (else the row is NaN):
//                                 0 * Inf = NaN, and a skipped key, are both legal in its column
//   sums that fp32 may overflow   anything
void place_specials(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                    const PerturbedWeights& weights, SparseAttentionInterval& interval);

}  // namespace mlacheck::detail
