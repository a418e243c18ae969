#pragma once

#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/perturbed_weights.h"
#include "reference/verdict/sparse_attention_interval.h"

namespace mlacheck::detail {

// Where NaN, Inf and empty rows must or may appear: everything in the interval that is not a number
// with a radius.
//   no present entry         out +0, lse by convention, max_logit -inf
//   a NaN or +inf score      out and lse NaN
//   only -inf scores         as an empty row, or NaN
//   NaN or Inf in a value    in its own column: surely where the weight is above what may
//   underflow; else 0 * Inf =
//                            NaN, Inf and a skipped key are all legal
//   sums that fp32 may overflow   anything
void place_specials(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                    const PerturbedWeights& weights, SparseAttentionInterval& interval);

}  // namespace mlacheck::detail
