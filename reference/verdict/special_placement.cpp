#include "reference/verdict/special_placement.h"

#include <algorithm>
#include <cmath>

#include "reference/verdict/constants.h"
#include "reference/verdict/lse_bound.h"

namespace mlacheck::detail {
namespace {

Admissible& element(SparseAttentionInterval& interval, std::int64_t h, std::int64_t c) {
  return interval.admissible[static_cast<std::size_t>(h * interval.expected.cols() + c)];
}

void fill_row(SparseAttentionInterval& interval, std::int64_t h, Admissible admissible) {
  for (std::int64_t c = 0; c < interval.expected.cols(); ++c) element(interval, h, c) = admissible;
}

void place_row(RowKind kind, const NumericsContract& contract, std::int64_t h,
               SparseAttentionInterval& interval) {
  Admissible out{.negative_zero = false}, lse, max_logit;
  if (kind == RowKind::nan) {
    out = lse = {.finite = false, .nan = true};
    max_logit.anything = true;  // whether a maximum keeps a NaN is nobody's promise
  } else if (kind == RowKind::no_weight) {
    out.nan = lse.nan = max_logit.nan = true;
  }
  fill_row(interval, h, out);
  interval.lse[static_cast<std::size_t>(h)] = {empty_lse(contract), 0, 0, lse};
  interval.max_logit[static_cast<std::size_t>(h)] = {-kInfinity, 0, 0, max_logit};
}

// Sums of scores, or of weights times values, that may pass the largest fp32 number.
void place_overflow(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                    const PerturbedWeights& weights, std::int64_t h,
                    SparseAttentionInterval& interval) {
  const double logit = std::max(oracle.largest_gauge[h], 1.5 * oracle.gauge.row(h).maxCoeff());
  if (logit >= kFloatMax) {
    fill_row(interval, h, {.anything = true});
    interval.lse[static_cast<std::size_t>(h)].admissible.anything = true;
    interval.max_logit[static_cast<std::size_t>(h)].admissible.anything = true;
    return;
  }
  const double scale = oracle.weight_sum[h] * std::exp2(contract.max_headroom) *
                       std::max(1.0, contract.weight_scale) * (1 + 0x1p-7);
  // An error of more than all there is excuses nothing.
  const double growth = 1 + std::min(weights.kappa[h], 1.0);
  for (std::int64_t c = 0; c < interval.expected.cols(); ++c)
    if (scale * growth *
            (oracle.magnitude(h, c) + std::min(interval.core(h, c), oracle.magnitude(h, c))) >=
        kFloatMax)
      element(interval, h, c).anything = true;
}

}  // namespace

void place_specials(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                    const PerturbedWeights& weights, SparseAttentionInterval& interval) {
  for (std::int64_t h = 0; h < oracle.weight.rows(); ++h) {
    const RowKind kind = oracle.kind[static_cast<std::size_t>(h)];
    if (kind != RowKind::finite) {
      place_row(kind, contract, h, interval);
      continue;
    }
    for (const std::int64_t c : oracle.special_columns) element(interval, h, c).nan = true;
    if (std::isnan(oracle.sink_factor[h])) fill_row(interval, h, {.finite = false, .nan = true});
    place_overflow(oracle, contract, weights, h, interval);
  }
}

}  // namespace mlacheck::detail
