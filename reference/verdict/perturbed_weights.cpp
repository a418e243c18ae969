#include "reference/verdict/perturbed_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"

namespace mlacheck {
namespace {

using Eigen::ArrayXd;

void perturb(const SparseAttentionOracle& oracle, const NumericsContract& contract, std::int64_t h,
             PerturbedWeights& result) {
  const ArrayXd s = oracle.score.row(h).array();
  const ArrayXd w = oracle.weight.row(h).array();
  const double floor = oracle.dot_scale * static_cast<double>(oracle.qk_dim) * least_kept(contract);
  const ArrayXd score_error =
      (worst_case(contract.qk, oracle.qk_dim) + oracle_score_error(oracle.qk_dim)) *
          oracle.gauge.row(h).array() +
      floor;
  const double high = (s + score_error).maxCoeff();
  const double low = (s - score_error).maxCoeff();
  const double m = std::max(std::abs(high), std::abs(low));
  const ArrayXd gap = (s == -kInfinity).select(0.0, (high - s).max(0.0));
  const double e_exp = gamma_of(contract.exp_error);
  const double lse = oracle.lse[h];
  const bool splits = contract.max_splits > 1;

  ArrayXd eta = score_error +
                kU * (2 * m + 7 * gap + 4 * contract.max_headroom * std::numbers::ln2) + e_exp +
                static_cast<double>(rescales(oracle, contract)) * (e_exp + 4 * kU);
  if (splits)
    eta += e_exp + contract.log_error + 6 * kU +
           4 * kU * (std::abs(lse) + gap + std::log(static_cast<double>(oracle.keys)));

  const ArrayXd shrunk = w * (-eta).exp();
  const ArrayXd smallest =
      shrunk * (contract.weights_normalised || splits ? 1.0 : oracle.weight_sum[h]);
  const auto vanishes = smallest < contract.exp_underflow;
  // exp(s - lse + eta): a weight too small for fp64 that a large error brings back.
  const ArrayXd grown = (eta < 1).select(w * eta.expm1(), (s - lse + eta).exp() - w);
  const ArrayXd moved = vanishes.select(grown.max(w), grown);
  const double denominator = vanishes.select(0.0, shrunk).sum();

  result.moved.row(h) = moved / denominator;
  result.kappa[h] = moved.sum() / denominator;
  result.denominator[h] = denominator;
  result.log_sum_error[h] = std::max(std::log1p(moved.sum()), -std::log(denominator));
  result.max_error[h] =
      std::max(high - oracle.max_logit[h], oracle.max_logit[h] - low) + 4 * kU * m;
  result.max_magnitude[h] = m;
}

}  // namespace

PerturbedWeights perturbed_weights(const SparseAttentionOracle& oracle,
                                   const NumericsContract& contract) {
  const std::int64_t heads = oracle.weight.rows();
  const ArrayXd zeros = ArrayXd::Zero(heads);
  PerturbedWeights result{
      RowMatrix::Zero(heads, oracle.keys), zeros, ArrayXd::Ones(heads), zeros, zeros, zeros};
  for (std::int64_t h = 0; h < heads; ++h)
    if (oracle.kind[static_cast<std::size_t>(h)] == RowKind::finite)
      perturb(oracle, contract, h, result);
  return result;
}

std::int64_t rescales(const SparseAttentionOracle& oracle, const NumericsContract& contract) {
  return contract.tile > 0 ? (oracle.length + contract.tile - 1) / contract.tile : 0;
}

double least_kept(const NumericsContract& contract) {
  return contract.flushes_subnormals ? 0x1p-126 : half_subnormal(DType::f32);
}

}  // namespace mlacheck
