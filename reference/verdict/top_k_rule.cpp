#include "reference/verdict/top_k_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/operators/require.h"
#include "reference/oracle/top_k_band.h"
#include "reference/verdict/constants.h"

namespace mlacheck {
namespace {

struct Members {
  std::vector<bool> selected;  // one per score
  std::string error;           // why this is no selection at all
};

// Count, range, duplicates, order and padding.
Members members_of(std::span<const std::int32_t> selected, std::int64_t begin, std::int64_t n,
                   SelectionOrder order) {
  Members members{std::vector<bool>(static_cast<std::size_t>(n)), {}};
  const auto count = static_cast<std::size_t>(std::min(std::ssize(selected), n));
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const std::int64_t index = selected[i];
    if (i >= count) {
      if (index == -1) continue;
      members.error = fmt::format("entry {}: expected padding -1, got {}", i, index);
    } else if (index < begin || index >= begin + n) {
      members.error = fmt::format("entry {}: expected an index in [{}, {}), got {}", i, begin,
                                  begin + n, index);
    } else if (members.selected[static_cast<std::size_t>(index - begin)]) {
      members.error = fmt::format("entry {}: index {} stands twice", i, index);
    } else if (order == SelectionOrder::ascending && i > 0 && index < selected[i - 1]) {
      members.error = fmt::format("entry {}: index {} after {}, expected ascending order", i, index,
                                  selected[i - 1]);
    } else {
      members.selected[static_cast<std::size_t>(index - begin)] = true;
      continue;
    }
    return members;
  }
  return members;
}

// A NaN score where it ranks: NaN is below every number already.
double ranked(double score, NanScores rule) {
  return std::isnan(score) && rule == NanScores::selected_first ? kInfinity : score;
}

Finding passed(const char* stage) {
  Finding finding;
  finding.stage = stage;
  return finding;
}

Finding failed(const char* stage, std::string detail) {
  Finding finding = passed(stage);
  finding.status = Status::fail;
  finding.detail = std::move(detail);
  return finding;
}

}  // namespace

Finding check_top_k(std::span<const std::int32_t> selected, std::int64_t begin,
                    std::span<const double> scores, std::span<const double> radii,
                    const NumericsContract& contract) {
  constexpr const char* kStage = "top_k";
  detail::require(scores.size() == radii.size(), "radii: expected {}, got {}", scores.size(),
                  radii.size());
  const Members members = members_of(selected, begin, std::ssize(scores), contract.selection_order);
  if (!members.error.empty()) return failed(kStage, members.error);

  std::ptrdiff_t lowest_member = -1, highest_other = -1;
  double least_high = 0, largest_low = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const ScoreBox box = score_box(ranked(scores[i], contract.nan_scores), radii[i]);
    const auto index = static_cast<std::ptrdiff_t>(i);
    if (members.selected[i]) {
      if (lowest_member < 0 || score_below(box.high, least_high)) {
        lowest_member = index;
        least_high = box.high;
      }
    } else if (highest_other < 0 || score_below(largest_low, box.low)) {
      highest_other = index;
      largest_low = box.low;
    }
  }
  if (lowest_member < 0 || highest_other < 0 || !score_below(least_high, largest_low))
    return passed(kStage);

  const auto in = static_cast<std::size_t>(lowest_member);
  const auto out = static_cast<std::size_t>(highest_other);
  const double margin = radii[in] + radii[out];
  const double gap = scores[out] - scores[in];
  const double ratio = margin > 0 && std::isfinite(gap) ? gap / margin : kInfinity;
  Finding finding = failed(
      kStage, fmt::format("selected {} (score {:.9g} +- {:.3g}), left out {} (score {:.9g} +- "
                          "{:.3g}): the gap is {:.3g} of the margin",
                          begin + lowest_member, scores[in], radii[in], begin + highest_other,
                          scores[out], radii[out], ratio));
  finding.worst = {begin + lowest_member, begin + highest_other, -1};
  finding.expected = scores[out];
  finding.got = scores[in];
  finding.ratio = ratio;
  return finding;
}

Finding check_top_k_of_own_scores(std::span<const std::int32_t> selected, std::int64_t begin,
                                  std::span<const float> own_scores,
                                  const NumericsContract& contract) {
  constexpr const char* kStage = "top_k.own_scores";
  const std::vector<double> scores(own_scores.begin(), own_scores.end());
  const std::vector<double> exact(scores.size());
  Finding finding = check_top_k(selected, begin, scores, exact, contract);
  finding.stage = kStage;
  if (finding.status != Status::pass || contract.ties == TieRule::any) return finding;

  // Equal scores at the threshold: a key left out must not stand before a member.
  const Members members = members_of(selected, begin, std::ssize(scores), contract.selection_order);
  const auto rank = [&](std::size_t i) { return ranked(scores[i], contract.nan_scores); };
  std::ptrdiff_t threshold = -1;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (members.selected[i] &&
        (threshold < 0 || score_below(rank(i), rank(static_cast<std::size_t>(threshold)))))
      threshold = static_cast<std::ptrdiff_t>(i);
  if (threshold < 0) return finding;
  std::ptrdiff_t left_out = -1;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double at = rank(static_cast<std::size_t>(threshold));
    if (score_below(rank(i), at) || score_below(at, rank(i))) continue;
    if (!members.selected[i] && left_out < 0) left_out = static_cast<std::ptrdiff_t>(i);
    if (members.selected[i] && left_out >= 0)
      return failed(
          kStage, fmt::format("selected {}, left out {} of the same score {:.9g}: expected "
                              "the lowest index",
                              begin + static_cast<std::ptrdiff_t>(i), begin + left_out, scores[i]));
  }
  return finding;
}

}  // namespace mlacheck
