#include "reference/oracle/top_k_band.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/operators/require.h"

namespace mlacheck {
namespace {

// How many of the ascending `values` are >= x, or > x.
std::int64_t count_at_least(const std::vector<double>& values, double x) {
  return values.end() - std::lower_bound(values.begin(), values.end(), x, score_below);
}
std::int64_t count_above(const std::vector<double>& values, double x) {
  return values.end() - std::upper_bound(values.begin(), values.end(), x, score_below);
}

}  // namespace

bool score_below(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a < b; }

ScoreBox score_box(double score, double radius) {
  if (!std::isfinite(score)) return {score, score};
  if (!std::isfinite(radius))
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  return {score - radius, score + radius};
}

TopKBand top_k_band(std::span<const double> scores, std::span<const double> radii, std::int64_t k) {
  detail::require(scores.size() == radii.size(), "radii: expected {}, got {}", scores.size(),
                  radii.size());
  detail::require(k >= 0, "k: expected >= 0, got {}", k);
  std::vector<double> lows(scores.size()), highs(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const ScoreBox box = score_box(scores[i], radii[i]);
    lows[i] = box.low;
    highs[i] = box.high;
  }
  std::vector<double> sorted_lows = lows, sorted_highs = highs;
  std::sort(sorted_lows.begin(), sorted_lows.end(), score_below);
  std::sort(sorted_highs.begin(), sorted_highs.end(), score_below);

  TopKBand band;
  band.membership.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::int64_t can_displace = count_at_least(sorted_highs, lows[i]) - 1;  // without itself
    const std::int64_t surely_above = count_above(sorted_lows, highs[i]);
    Membership& membership = band.membership[i];
    if (surely_above >= k) {
      membership = Membership::forbidden;
      ++band.forbidden;
    } else if (can_displace < k) {
      membership = Membership::forced;
      ++band.forced;
    } else {
      membership = Membership::ambiguous;
      ++band.ambiguous;
    }
  }
  return band;
}

}  // namespace mlacheck
