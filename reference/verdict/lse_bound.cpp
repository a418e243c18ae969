#include "reference/verdict/lse_bound.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"

namespace mlacheck {
namespace {

// lse <- ln(e^lse + e^sink): a weighted mean of the two errors, one more exponential and logarithm.
void add_sink(double sink, const NumericsContract& contract, ElementBound& bound) {
  const double lse = bound.expected;
  if (std::isnan(sink) || sink == kInfinity) {
    bound.admissible = {.finite = false, .nan = true, .plus_inf = sink == kInfinity};
    return;
  }
  const double larger = std::max(lse, sink);
  bound.expected = larger + std::log1p(std::exp(std::min(lse, sink) - larger));
  const double more = gamma_of(contract.exp_error) +
                      contract.log_error * (1 + bound.expected - larger) +
                      8 * kU * (std::abs(sink) + std::abs(lse) + 1);
  bound.core += more;
  bound.likely += more;
}

}  // namespace

bool roundings_are_independent(const SparseAttentionOracle& oracle) {
  constexpr std::int64_t kFewCoordinates = 16;
  return oracle.qk_dim >= kFewCoordinates;
}

double likely_sum_error(const Accumulation& sum, const SparseAttentionOracle& oracle,
                        std::int64_t h, std::int64_t merges, double lambda) {
  constexpr double kFewUlp = 16 * kU;
  const double small = static_cast<double>((oracle.weight.row(h).array() < kFewUlp).count()) /
                       static_cast<double>(oracle.keys);
  const double worst = worst_case(sum, oracle.length, merges);
  return std::min(worst, statistical(sum, oracle.length, merges, lambda) + small * worst);
}

double weight_roundoff(const NumericsContract& contract) {
  return contract.weight_dtype == DType::f32 ? 0 : unit_roundoff(contract.weight_dtype);
}

double weight_floor(const NumericsContract& contract) {
  return contract.weight_dtype == DType::f32
             ? 0
             : half_subnormal(contract.weight_dtype) / contract.weight_scale;
}

double common_weight_error(const SparseAttentionOracle& oracle, const NumericsContract& contract,
                           std::int64_t h) {
  const double u = weight_roundoff(contract);
  return oracle.score_spread[h] > 2 * u ? u * 2 * u / oracle.score_spread[h] : u;
}

double empty_lse(const NumericsContract& contract) {
  switch (contract.lse_empty) {
    case EmptyLse::minus_inf:
      return -kInfinity;
    case EmptyLse::plus_inf:
      return kInfinity;
    case EmptyLse::minus_1e30:
      return static_cast<double>(-1e30f);
  }
  return -kInfinity;
}

ElementBound natural_lse_bound(const SparseAttentionOracle& oracle,
                               const NumericsContract& contract, const PerturbedWeights& weights,
                               std::int64_t h, double lambda) {
  const std::int64_t merges =
      rescales(oracle, contract) + (contract.max_splits > 1 ? contract.max_splits : 0);
  const double l = oracle.weight_sum[h];
  const double shared =
      weights.log_sum_error[h] + oracle.lse_radius[h] +
      contract.log_error * (1 + std::abs(std::log(l)) + contract.max_headroom * std::numbers::ln2) +
      4 * kU * (std::abs(oracle.lse[h]) + weights.max_magnitude[h]);
  double core = shared + gamma_of(worst_case(contract.weight_sum, oracle.length, merges));
  double likely =
      shared + gamma_of(likely_sum_error(contract.weight_sum, oracle, h, merges, lambda));
  if (contract.sums_rounded_weights) {
    const double floor = weight_floor(contract) * static_cast<double>(oracle.keys) / l;
    const double u = weight_roundoff(contract);
    core += gamma_of(u + floor);
    likely += gamma_of(lambda * u / std::numbers::sqrt3 * std::sqrt(oracle.weight_squares[h]) +
                       common_weight_error(oracle, contract, h) + floor);
  }
  if (!roundings_are_independent(oracle)) likely = core;
  return {oracle.lse[h], core, std::min(core, likely), {}};
}

ElementBound declared_lse_bound(const SparseAttentionOracle& oracle,
                                const NumericsContract& contract, std::int64_t h,
                                ElementBound bound) {
  if (contract.sink_in_lse && oracle.sink[h] != -kInfinity)
    add_sink(oracle.sink[h], contract, bound);
  if (contract.lse_base == LseBase::two) {
    bound.expected *= std::numbers::log2e;
    const double conversion = 2 * kU * std::abs(bound.expected);
    bound.core = bound.core * std::numbers::log2e + conversion;
    bound.likely = bound.likely * std::numbers::log2e + conversion;
  }
  return bound;
}

}  // namespace mlacheck
