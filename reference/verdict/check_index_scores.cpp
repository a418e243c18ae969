#include "reference/verdict/check_index_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"
#include "reference/verdict/perturbed_weights.h"
#include "reference/verdict/tally.h"

namespace mlacheck {
namespace {

Admissible admissible_of(double score, double peak, const NumericsContract& contract) {
  if (std::isnan(score))
    return contract.relu_drops_nan ? Admissible{.anything = true}
                                   : Admissible{.finite = false, .nan = true};
  if (std::isinf(score)) return {.finite = false, .plus_inf = score > 0, .minus_inf = score < 0};
  return {.anything = peak >= kFloatMax};
}

}  // namespace

std::vector<ElementBound> index_score_bounds(const IndexScoresOracle& oracle,
                                             const IndexScoresProblem& problem,
                                             const NumericsContract& contract) {
  require_valid(contract);
  const double dot = worst_case(contract.index_dot, problem.dim);
  const double heads =
      worst_case(contract.index_heads, problem.heads) + 2 * unit_roundoff(DType::f32);
  const double floor = static_cast<double>(problem.dim + problem.heads) * least_kept(contract);
  std::vector<ElementBound> bounds(oracle.score.size());
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const double dots = dot * oracle.dots[i];
    const double core =
        heads * (oracle.heads[i] + dots) + dots + floor * (oracle.unit[i] + 1) + oracle.radius[i];
    bounds[i] = {oracle.score[i], core, core,
                 admissible_of(oracle.score[i], oracle.peak[i], contract)};
  }
  return bounds;
}

ScoreBoxes score_boxes(const std::vector<ElementBound>& bounds, DType score_dtype) {
  ScoreBoxes boxes;
  for (const ElementBound& bound : bounds) {
    if (bound.admissible.anything) {
      boxes.score.push_back(0);
      boxes.radius.push_back(kInfinity);
      continue;
    }
    const Interval interval = rounded_interval(bound.expected, bound.core, score_dtype);
    boxes.score.push_back(bound.expected);
    boxes.radius.push_back(
        std::isfinite(bound.expected)
            ? std::max({bound.core, interval.high - bound.expected, bound.expected - interval.low})
            : 0);
  }
  return boxes;
}

Finding check_index_scores(const IndexScoresProblem& problem, const NumericsContract& contract,
                           const float* scores) {
  detail::require(scores != nullptr || problem.tokens * problem.key_count == 0,
                  "scores: expected an address, got null");
  const ElementBound masked{-kInfinity, 0, 0, {.anything = !contract.masks_scores}};
  Tally tally(contract.score_dtype, {"token", "key", nullptr});
  std::mutex mutex;
  const auto part = [&, empty = tally] { return TallyPart(tally, mutex, empty); };
  detail::parallel_rows(problem.tokens, part, [&](std::int64_t t, auto& mine) {
    const IndexScoresOracle oracle = index_scores_oracle(problem, t);
    const std::vector<ElementBound> bounds = index_score_bounds(oracle, problem, contract);
    for (std::int64_t s = 0; s < problem.key_count; ++s) {
      const bool inside = s >= oracle.begin && s < oracle.end;
      mine->add({t, s, -1}, inside ? bounds[static_cast<std::size_t>(s - oracle.begin)] : masked,
                scores[t * problem.key_count + s]);
    }
  });
  return tally.finding("index_scores");
}

Finding check_scores_outside(const IndexScoresProblem& problem, const float* scores,
                             std::uint32_t before) {
  Finding finding;
  finding.stage = "index_scores outside";
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const std::int64_t begin = problem.key_begin != nullptr ? problem.key_begin[t] : 0;
    const std::int64_t end = problem.key_end != nullptr ? problem.key_end[t] : problem.key_count;
    for (std::int64_t s = 0; s < problem.key_count; ++s) {
      if (begin <= s && s < end) continue;
      ++finding.elements;
      const float score = scores[t * problem.key_count + s];
      if (std::bit_cast<std::uint32_t>(score) == before) continue;
      if (finding.failed++ > 0) continue;
      finding.status = Status::fail;
      finding.detail = fmt::format("row {} key {}, outside of [{}, {}), was written: {}", t, s,
                                   begin, end, score);
    }
  }
  return finding;
}

}  // namespace mlacheck
