#include "reference/verdict/sparse_attention_interval.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/operators/parallel_rows.h"
#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"
#include "reference/verdict/lse_bound.h"
#include "reference/verdict/perturbed_weights.h"
#include "reference/verdict/special_placement.h"

namespace mlacheck {
namespace {

using Eigen::ArrayXd;

// C_i. Heads go in groups that share a stretch of value rows in the cache.
RowMatrix moved_means(const SparseAttentionOracle& oracle, const PerturbedWeights& weights) {
  constexpr std::int64_t kHeads = 8, kKeys = 16;
  const std::int64_t heads = oracle.mean.rows();
  RowMatrix moved = RowMatrix::Zero(heads, oracle.mean.cols());
  detail::parallel_rows((heads + kHeads - 1) / kHeads, [&](std::int64_t group) {
    const std::int64_t first_head = group * kHeads;
    for (std::int64_t first_key = 0; first_key < oracle.keys; first_key += kKeys)
      for (std::int64_t h = first_head; h < std::min(first_head + kHeads, heads); ++h)
        for (std::int64_t j = first_key; j < std::min(first_key + kKeys, oracle.keys); ++j)
          moved.row(h) +=
              weights.moved(h, j) * (oracle.value.row(j) - oracle.mean.row(h)).cwiseAbs();
  });
  return moved;
}

// Relative error of the sink's factor, given the error of the lse: d ln factor = (1 - factor) d
// lse.
double sink_error(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                  std::int64_t h, double lse_error) {
  const double factor = oracle.sink_factor[h], sink = oracle.sink[h];
  if (sink == -kInfinity || factor == 0) return 0;
  if (factor < kTinySinkFactor) return 1;
  const double argument = lse_error + 8 * kU * (std::abs(sink) + std::abs(oracle.lse[h])) +
                          gamma_of(contract.exp_error);
  return gamma_of((1 - factor) * std::expm1(argument) + 4 * kU);
}

// Errors of one row's numerator beyond C: [worst case, likely].
struct Numerator {
  ArrayXd core;
  ArrayXd likely;
};
Numerator numerator_errors(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                           const PerturbedWeights& weights, std::int64_t h, const ArrayXd& moved,
                           double lambda) {
  const ArrayXd size = oracle.mean.row(h).transpose().array().abs();
  const double kappa = weights.kappa[h];
  const ArrayXd v =
      oracle.magnitude.row(h).transpose().array() * (1 + kappa) + moved + size * kappa;
  const double l = contract.weights_normalised ? 1 : oracle.weight_sum[h] * weights.denominator[h];

  const double u = weight_roundoff(contract);
  const double random = lambda * u / std::numbers::sqrt3;
  const double floor = weight_floor(contract) / l;
  ArrayXd rounding = u * v + floor * oracle.value_sum;
  ArrayXd rounding_likely =
      random * oracle.squares.row(h).transpose().array().sqrt() + floor * oracle.value_sum;
  if (contract.sums_rounded_weights) {  // the denominator has the same errors
    const double shared = floor * static_cast<double>(oracle.keys);
    rounding += size * (u + shared);
    rounding_likely += size * (random * std::sqrt(oracle.weight_squares[h]) + shared);
  } else {
    rounding_likely += size * common_weight_error(oracle, contract, h);
  }

  const bool splits = contract.max_splits > 1;
  const std::int64_t merges = rescales(oracle, contract) + (splits ? contract.max_splits : 0);
  const double partial = splits ? unit_roundoff(contract.partial_dtype) : 0;
  const double absolute = static_cast<double>(oracle.length) * least_kept(contract) / l +
                          (splits ? half_subnormal(contract.partial_dtype) : 0);
  const double pv = worst_case(contract.pv, oracle.length, merges) * (1 + u);
  const double pv_likely = likely_sum_error(contract.pv, oracle, h, merges, lambda) * (1 + u);
  return {rounding + (pv + partial) * v + absolute,
          rounding_likely.min(rounding) + (pv_likely + partial) * v + absolute};
}

void bound_row(const SparseAttentionOracle& oracle, const NumericsContract& contract,
               const PerturbedWeights& weights, const RowMatrix& moved_means, std::int64_t h,
               double lambda, SparseAttentionInterval& interval) {
  const auto i = static_cast<std::size_t>(h);
  const ElementBound lse = natural_lse_bound(oracle, contract, weights, h, lambda);
  interval.lse[i] = declared_lse_bound(oracle, contract, h, lse);
  interval.max_logit[i] = {oracle.max_logit[h], weights.max_error[h], weights.max_error[h], {}};

  const ArrayXd mean = oracle.mean.row(h).transpose().array();
  const ArrayXd moved = moved_means.row(h).transpose().array();
  const ArrayXd radius = oracle.radius.row(h).transpose().array();
  const Numerator numerator = numerator_errors(oracle, contract, weights, h, moved, lambda);
  const double factor = oracle.sink_factor[h];
  const double tau_sink = sink_error(oracle, contract, h, lse.core);
  const auto finish = [&](const ArrayXd& error, double sum_error) -> ArrayXd {
    const double tau = gamma_of(sum_error + (contract.max_splits > 1 ? 10 : 4) * kU);
    const ArrayXd before_sink = (moved + error) * (1 + tau) + tau * mean.abs() + radius;
    return factor * ((1 + tau_sink) * before_sink + tau_sink * mean.abs()) * (1 + 0x1p-20) +
           least_kept(contract);
  };
  const std::int64_t merges =
      rescales(oracle, contract) + (contract.max_splits > 1 ? contract.max_splits : 0);
  const ArrayXd core =
      finish(numerator.core, worst_case(contract.weight_sum, oracle.length, merges));
  const ArrayXd likely = roundings_are_independent(oracle)
                             ? finish(numerator.likely, likely_sum_error(contract.weight_sum,
                                                                         oracle, h, merges, lambda))
                             : core;
  interval.expected.row(h) = factor * oracle.mean.row(h);
  interval.core.row(h) = core.matrix().transpose();
  interval.likely.row(h) = likely.min(core).matrix().transpose();
}

}  // namespace

SparseAttentionInterval sparse_attention_interval(const SparseAttentionOracle& oracle,
                                                  const NumericsContract& contract, double lambda) {
  require_valid(contract);
  const std::int64_t heads = oracle.mean.rows(), columns = oracle.mean.cols();
  const RowMatrix zeros = RowMatrix::Zero(heads, columns);
  SparseAttentionInterval interval{
      contract.out_dtype,
      zeros,
      zeros,
      zeros,
      std::vector<Admissible>(static_cast<std::size_t>(heads * columns)),
      std::vector<ElementBound>(static_cast<std::size_t>(heads)),
      std::vector<ElementBound>(static_cast<std::size_t>(heads))};
  const PerturbedWeights weights = perturbed_weights(oracle, contract);
  const RowMatrix moved = moved_means(oracle, weights);
  for (std::int64_t h = 0; h < heads; ++h)
    if (oracle.kind[static_cast<std::size_t>(h)] == RowKind::finite)
      bound_row(oracle, contract, weights, moved, h, lambda, interval);
  detail::place_specials(oracle, contract, weights, interval);
  return interval;
}

}  // namespace mlacheck
