#include "reference/oracle/index_scores_oracle.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"

namespace mlacheck {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kKeyBlock = 512;

void score_block(const IndexScoresProblem& problem, std::int64_t t, const Matrix& q,
                 std::int64_t first, std::int64_t count, IndexScoresOracle& oracle) {
  Matrix k(count, problem.dim);
  Eigen::ArrayXd scale(count);
  Eigen::ArrayXf row(problem.dim);
  for (std::int64_t s = 0; s < count; ++s) {
    const std::int64_t slot = slot_of(problem, t, first + s);
    load_row(row_address(problem.keys, slot), problem.keys.dtype, problem.dim, row.data());
    k.row(s) = row.cast<double>();
    scale[s] = static_cast<double>(row_scale(problem.keys, slot));
  }
  const Matrix dots = k * q.transpose();
  const Matrix gauges = k.cwiseAbs() * q.cwiseAbs().transpose();
  const Eigen::ArrayXd a =
      Eigen::Map<const Eigen::ArrayXf>(problem.weights + t * problem.heads, problem.heads)
          .cast<double>();
  for (std::int64_t s = 0; s < count; ++s) {
    double score = 0, dot_gauge = 0, head_gauge = 0, unit = 0, peak = 0;
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      const double relu = dots(s, h) <= 0 ? 0 : dots(s, h);                 // NaN stays
      const double gauge = std::isfinite(gauges(s, h)) ? gauges(s, h) : 0;  // Inf inputs: exact
      score += a[h] * relu;
      dot_gauge += std::abs(a[h]) * gauge;
      head_gauge += std::abs(a[h]) * relu;
      unit += std::abs(a[h]);
      peak = std::max(peak, gauge);
    }
    const double magnitude = std::abs(scale[s]);
    const auto i = static_cast<std::size_t>(first + s - oracle.begin);
    oracle.score[i] = score * scale[s];
    oracle.dots[i] = dot_gauge * magnitude;
    oracle.heads[i] = head_gauge * magnitude;
    oracle.unit[i] = unit * magnitude;
    oracle.peak[i] = std::max({peak, dot_gauge, dot_gauge * magnitude});
    oracle.radius[i] = std::isfinite(oracle.score[i])
                           ? fp64_gamma(problem.dim + problem.heads + 4) * oracle.dots[i]
                           : 0;
  }
}

}  // namespace

IndexScoresOracle index_scores_oracle(const IndexScoresProblem& problem, std::int64_t t) {
  detail::require(t >= 0 && t < problem.tokens, "token: expected 0 .. {}, got {}",
                  problem.tokens - 1, t);
  IndexScoresOracle oracle;
  oracle.begin = problem.key_begin != nullptr ? problem.key_begin[t] : 0;
  oracle.end = std::max(oracle.begin, problem.key_end != nullptr ? std::int64_t{problem.key_end[t]}
                                                                 : problem.key_count);
  for (std::vector<double>* values :
       {&oracle.score, &oracle.radius, &oracle.dots, &oracle.heads, &oracle.unit, &oracle.peak})
    values->resize(static_cast<std::size_t>(oracle.end - oracle.begin));
  Matrix q(problem.heads, problem.dim);
  Eigen::ArrayXf row(problem.dim);
  for (std::int64_t h = 0; h < problem.heads; ++h) {
    load_row(query_address(problem.q, t, h), problem.q.dtype, problem.dim, row.data());
    q.row(h) = row.cast<double>();
  }
  const std::int64_t blocks = (oracle.end - oracle.begin + kKeyBlock - 1) / kKeyBlock;
  detail::parallel_rows(blocks, [&](std::int64_t block) {
    const std::int64_t first = oracle.begin + block * kKeyBlock;
    score_block(problem, t, q, first, std::min(kKeyBlock, oracle.end - first), oracle);
  });
  return oracle;
}

}  // namespace mlacheck
