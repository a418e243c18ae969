#include "reference/oracle/sparse_attention_oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_set>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"

namespace mlacheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-53;
constexpr double kSecondOrder = 1 + 0x1p-20;

std::vector<std::int32_t> attended_slots(const SparseAttentionProblem& problem, std::int64_t t,
                                         Duplicates duplicates) {
  std::vector<std::int32_t> slots = present_slots(problem, t);
  if (duplicates == Duplicates::counted) return slots;
  std::unordered_set<std::int32_t> seen;
  std::erase_if(slots, [&](std::int32_t slot) { return !seen.insert(slot).second; });
  return slots;
}

RowMatrix load_queries(const SparseAttentionProblem& problem, std::int64_t t) {
  RowMatrix q(problem.heads, problem.qk_dim);
  Eigen::ArrayXf row(problem.qk_dim);
  for (std::int64_t h = 0; h < problem.heads; ++h) {
    load_row(query_address(problem.q, t, h), problem.q.dtype, problem.qk_dim, row.data());
    q.row(h) = row.cast<double>();
  }
  return q;
}

RowMatrix load_keys(const SparseAttentionProblem& problem, std::span<const std::int32_t> slots) {
  RowMatrix k(std::ssize(slots), problem.qk_dim);
  Eigen::ArrayXf row(problem.qk_dim);
  for (std::int64_t j = 0; j < k.rows(); ++j) {
    load_row(row_address(problem.kv, slots[static_cast<std::size_t>(j)]), problem.kv.dtype,
             problem.qk_dim, row.data());
    k.row(j) = row.cast<double>();
  }
  return k;
}

// Moves NaN and Inf out of the values, so that they stay in their own column and head.
void set_special_values_apart(SparseAttentionOracle& oracle) {
  if (oracle.value.allFinite()) return;
  for (std::int64_t c = 0; c < oracle.value.cols(); ++c) {
    if (oracle.value.col(c).allFinite()) continue;
    oracle.special_columns.push_back(c);
    for (double& v : oracle.value.col(c))
      if (!std::isfinite(v)) v = 0;
  }
}

RowKind kind_of(const SparseAttentionOracle& oracle, std::int64_t h) {
  const auto scores = oracle.score.row(h).array();
  if (scores.isNaN().any() || (scores == kInfinity).any()) return RowKind::nan;
  return (scores == -kInfinity).all() ? RowKind::no_weight : RowKind::finite;
}

// Weights, maximum and lse of a head, and (in `error`) the relative error of each fp64 weight.
void softmax(SparseAttentionOracle& oracle, std::int64_t h, Eigen::Ref<Eigen::ArrayXd> error) {
  const Eigen::ArrayXd s = oracle.score.row(h).array();
  Eigen::ArrayXd gauge = oracle.gauge.row(h).array();
  gauge = (s == -kInfinity).select(0.0, gauge);  // an exact weight of 0
  oracle.gauge.row(h) = gauge;
  const double m = s.maxCoeff();
  const Eigen::ArrayXd score_error = oracle_score_error(oracle.qk_dim) * gauge;
  const Eigen::ArrayXd p = (s - m).exp();
  const double l = p.sum();
  const Eigen::ArrayXd w = p / l;
  const Eigen::ArrayXd gap = (s == -kInfinity).select(0.0, m - s);
  error = score_error + kU * (4 * std::abs(m) + 4 * gap + 8);

  oracle.weight.row(h) = w;
  oracle.weight_sum[h] = l;
  oracle.max_logit[h] = m;
  oracle.max_logit_radius[h] =
      std::max((s + score_error).maxCoeff() - m, m - (s - score_error).maxCoeff());
  oracle.lse[h] = m + std::log(l);
  oracle.lse_radius[h] = kSecondOrder * ((w * error).sum() + fp64_gamma(oracle.keys + 8) +
                                         4 * kU * (std::abs(m) + std::log(l)));
  const Eigen::ArrayXd finite = (s == -kInfinity).select(m, s);
  const double center = (w * finite).sum();
  oracle.score_spread[h] = std::sqrt((w * (finite - center).square()).sum());
}

// Keys of equal score get equal weights where a kernel has one maximum for them, and so equal
// rounding errors: (sum w v)^2 in place of sum (w v)^2. In parts of a row with maxima of their own
// they do not: the larger of both. Equal means equal within the oracle's own error.
void join_equal_scores(SparseAttentionOracle& oracle, std::int64_t h) {
  const auto s = oracle.score.row(h);
  const auto w = oracle.weight.row(h);
  const double unit = oracle_score_error(oracle.qk_dim);
  std::vector<std::int64_t> order(static_cast<std::size_t>(oracle.keys));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return s[a] < s[b]; });
  Eigen::RowVectorXd sum(oracle.value.cols()), squares(oracle.value.cols());
  for (std::size_t begin = 0, end = 1; begin < order.size(); begin = end++) {
    while (end < order.size() &&
           s[order[end]] - s[order[end - 1]] <=
               unit * (oracle.gauge(h, order[end]) + oracle.gauge(h, order[end - 1])))
      ++end;
    if (end - begin == 1) continue;
    double weight = 0, weight_squares = 0;
    sum.setZero();
    squares.setZero();
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t j = order[i];
      weight += w[j];
      weight_squares += w[j] * w[j];
      sum += w[j] * oracle.value.row(j);
      squares += (w[j] * oracle.value.row(j)).cwiseAbs2();
    }
    oracle.weight_squares[h] += weight * weight - weight_squares;
    oracle.squares.row(h) += (sum.cwiseAbs2() - squares).cwiseMax(0.0);
  }
}

void attend(SparseAttentionOracle& oracle, const RowMatrix& weight_error) {
  const RowMatrix magnitudes = oracle.value.cwiseAbs();
  oracle.value_sum = magnitudes.colwise().sum().transpose();
  oracle.mean.noalias() = oracle.weight * oracle.value;
  oracle.magnitude.noalias() = oracle.weight * magnitudes;
  const RowMatrix weighted_error = oracle.weight.cwiseProduct(weight_error);
  oracle.radius.noalias() = weighted_error * magnitudes;
  const Eigen::VectorXd total_error = weighted_error.rowwise().sum();
  oracle.radius += total_error.asDiagonal() * oracle.mean.cwiseAbs();
  oracle.radius += fp64_gamma(2 * oracle.keys + 16) * oracle.magnitude;
  oracle.radius *= kSecondOrder;
  oracle.squares.noalias() = oracle.weight.cwiseAbs2() * oracle.value.cwiseAbs2();
  oracle.weight_squares = oracle.weight.cwiseAbs2().rowwise().sum();
}

// A token whose rows are all empty: what stays where no key is present.
SparseAttentionOracle empty_rows(const SparseAttentionProblem& problem, std::int64_t t) {
  const std::int64_t heads = problem.heads;
  SparseAttentionOracle oracle;
  oracle.length = problem.topk_length != nullptr ? problem.topk_length[t] : problem.topk;
  oracle.qk_dim = problem.qk_dim;
  oracle.dot_scale = std::abs(static_cast<double>(problem.sm_scale));
  for (RowMatrix* per_column : {&oracle.mean, &oracle.magnitude, &oracle.squares, &oracle.radius})
    *per_column = RowMatrix::Zero(heads, problem.v_dim);
  oracle.value_sum = Eigen::ArrayXd::Zero(problem.v_dim);
  for (Eigen::ArrayXd* per_head :
       {&oracle.weight_squares, &oracle.score_spread, &oracle.max_logit_radius, &oracle.weight_sum,
        &oracle.lse_radius, &oracle.largest_gauge})
    *per_head = Eigen::ArrayXd::Zero(heads);
  oracle.max_logit = oracle.lse = oracle.sink = Eigen::ArrayXd::Constant(heads, -kInfinity);
  if (problem.attn_sink != nullptr)
    oracle.sink = Eigen::Map<const Eigen::ArrayXf>(problem.attn_sink, heads).cast<double>();
  oracle.sink_factor = Eigen::ArrayXd::Ones(heads);
  oracle.kind.assign(static_cast<std::size_t>(heads), RowKind::empty);
  oracle.weight = RowMatrix::Zero(heads, 0);
  return oracle;
}

// Scores, their gauges, and the values.
void score_keys(const SparseAttentionProblem& problem, std::int64_t t,
                std::span<const std::int32_t> slots, SparseAttentionOracle& oracle) {
  const RowMatrix q = load_queries(problem, t);
  const RowMatrix k = load_keys(problem, slots);
  oracle.keys = k.rows();
  oracle.value = k.leftCols(problem.v_dim);
  set_special_values_apart(oracle);
  oracle.score.noalias() = q * k.transpose();
  oracle.score *= static_cast<double>(problem.sm_scale);
  const RowMatrix k_magnitude = k.cwiseAbs();
  oracle.gauge.noalias() = q.cwiseAbs() * k_magnitude.transpose();
  oracle.largest_gauge =
      oracle.gauge.array().isFinite().select(oracle.gauge, 0.0).rowwise().maxCoeff();
  oracle.gauge *= oracle.dot_scale;
}

}  // namespace

double oracle_score_error(std::int64_t qk_dim) { return fp64_gamma(qk_dim + 2); }

SparseAttentionOracle sparse_attention_oracle(const SparseAttentionProblem& problem, std::int64_t t,
                                              Duplicates duplicates) {
  require_valid_sizes(problem);
  detail::require(t >= 0 && t < problem.tokens, "token: expected 0 .. {}, got {}",
                  problem.tokens - 1, t);
  require_valid_length(problem, t);
  SparseAttentionOracle oracle = empty_rows(problem, t);
  const std::vector<std::int32_t> slots = attended_slots(problem, t, duplicates);
  if (slots.empty()) return oracle;
  score_keys(problem, t, slots, oracle);

  oracle.weight = RowMatrix::Zero(problem.heads, oracle.keys);
  RowMatrix weight_error = RowMatrix::Zero(problem.heads, oracle.keys);
  for (std::int64_t h = 0; h < problem.heads; ++h) {
    const RowKind kind = oracle.kind[static_cast<std::size_t>(h)] = kind_of(oracle, h);
    if (kind != RowKind::finite) continue;
    Eigen::ArrayXd error(oracle.keys);
    softmax(oracle, h, error);
    weight_error.row(h) = error;
    oracle.sink_factor[h] = 1 / (1 + std::exp(oracle.sink[h] - oracle.lse[h]));
  }
  attend(oracle, weight_error);
  detail::parallel_rows(problem.heads, [&](std::int64_t h) {
    if (oracle.kind[static_cast<std::size_t>(h)] == RowKind::finite) join_equal_scores(oracle, h);
  });
  return oracle;
}

}  // namespace mlacheck
