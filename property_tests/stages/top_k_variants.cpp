#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "fixtures/case_tensor.h"
#include "property_tests/stages/index_attempt.h"

namespace mlacheck::stages {
// Named too: batches of files compile as one, and variants of operators are alike.
namespace of_selections {
namespace {

using Attempt = TopKAttempt;

std::span<float> scores_of(Attempt& a) {
  Tensor& t = a.made.inputs[0];
  return {reinterpret_cast<float*>(t.bytes.data()), t.bytes.size() / sizeof(float)};
}
std::span<std::int32_t> bounds_of(Attempt& a, std::size_t which) {
  Tensor& t = a.made.inputs[which];
  return {reinterpret_cast<std::int32_t*>(t.bytes.data()), t.bytes.size() / sizeof(std::int32_t)};
}

template <class Change>
bool change_scores(Attempt& a, Change change) {
  bool changed = false;
  for (float& x : scores_of(a)) {
    const float before = x;
    x = change(before);
    changed = changed || (x != before && !std::isnan(before));
  }
  return changed;
}

// ---- scores ----

bool negated(Attempt& a) {
  return change_scores(a, [](float x) { return -x; });
}
bool absolute(Attempt& a) {
  return change_scores(a, [](float x) { return std::abs(x); });
}
template <DType Type>
bool rounded(Attempt& a) {
  return change_scores(a, [](float x) { return round_to(Type, x); });
}
bool signed_zeros(Attempt& a) {
  bool changed = false;
  for (float& x : scores_of(a))
    if (x == 0 && std::signbit(x)) {
      x = -std::numeric_limits<float>::denorm_min();
      changed = true;
    }
  return changed;
}
bool flushed(Attempt& a) {
  return change_scores(a, [](float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; });
}
bool infinite_as_largest(Attempt& a) {
  return change_scores(a, [](float x) {
    return std::isinf(x) ? std::copysign(std::numeric_limits<float>::max(), x) : x;
  });
}

// ---- selection ----

template <std::int64_t Most>
bool first_columns(Attempt& a) {
  bool changed = false;
  for (std::int32_t& end : bounds_of(a, 2)) {
    changed = changed || end > Most;
    end = static_cast<std::int32_t>(std::min<std::int64_t>(end, Most));
  }
  for (std::size_t t = 0; t < bounds_of(a, 1).size(); ++t)
    bounds_of(a, 1)[t] = std::min(bounds_of(a, 1)[t], bounds_of(a, 2)[t]);
  return changed;
}
bool no_begin(Attempt& a) {
  bool changed = false;
  for (std::int32_t& begin : bounds_of(a, 1)) {
    changed = changed || begin != 0;
    begin = 0;
  }
  return changed;
}
bool no_end(Attempt& a) {
  bool changed = false;
  for (std::int32_t& end : bounds_of(a, 2)) {
    changed = changed || end != a.made.recipe.scores;
    end = static_cast<std::int32_t>(a.made.recipe.scores);
  }
  return changed;
}
bool no_range(Attempt& a) {
  return static_cast<int>(no_begin(a)) + static_cast<int>(no_end(a)) > 0;
}
bool end_before(Attempt& a) {
  for (std::size_t t = 0; t < bounds_of(a, 2).size(); ++t)
    bounds_of(a, 2)[t] = std::max(bounds_of(a, 2)[t] - 1, bounds_of(a, 1)[t]);
  return true;
}
bool no_tail_of_four(Attempt& a) {
  bool changed = false;
  for (std::size_t t = 0; t < bounds_of(a, 2).size(); ++t) {
    const std::int32_t n = bounds_of(a, 2)[t] - bounds_of(a, 1)[t];
    bounds_of(a, 2)[t] -= n % 4;
    changed = changed || n % 4 != 0;
  }
  return changed;
}
bool first_row_scores(Attempt& a) {
  const std::span<float> scores = scores_of(a);
  const auto n = static_cast<std::size_t>(a.made.recipe.scores);
  for (std::size_t t = 1; t < static_cast<std::size_t>(a.made.recipe.tokens); ++t)
    std::copy_n(scores.begin(), n, scores.begin() + static_cast<std::ptrdiff_t>(t * n));
  return a.made.recipe.tokens > 1;
}

// ---- conventions ----

bool other_ties(Attempt& a) {
  const TieRule before = a.contract.ties;
  a.contract.ties = TieRule::any;
  return before != TieRule::any;
}
bool other_order(Attempt& a) {
  const SelectionOrder before = a.contract.selection_order;
  a.contract.selection_order = SelectionOrder::any;
  return before != SelectionOrder::any;
}
bool other_nan(Attempt& a) {
  a.contract.nan_scores = a.contract.nan_scores == NanScores::never_selected
                              ? NanScores::selected_first
                              : NanScores::never_selected;
  return true;
}
bool other_base(Attempt& a) {
  a.row_relative = !a.row_relative;
  return true;
}

}  // namespace
}  // namespace of_selections

const std::vector<TopKVariant>& top_k_variants() {
  using namespace of_selections;
  static const std::vector<TopKVariant> variants = {
      {"scores", "the least were selected", negated},
      {"scores", "scores were absolute values", absolute},
      {"scores", "scores were rounded to f16", rounded<DType::f16>},
      {"scores", "scores were rounded to bf16", rounded<DType::bf16>},
      {"scores", "-0 was less than +0", signed_zeros},
      {"scores", "subnormal scores were zeros", flushed},
      {"scores", "infinite scores were the largest finite ones", infinite_as_largest},
      {"selection", "columns past 1024 were left out", first_columns<1024>},
      {"selection", "columns past 4096 were left out", first_columns<4096>},
      {"selection", "columns past 16384 were left out", first_columns<16384>},
      {"selection", "columns past 65536 were left out", first_columns<65536>},
      {"selection", "range_begin was ignored", no_begin},
      {"selection", "range_end was ignored", no_end},
      {"selection", "ranges were ignored", no_range},
      {"selection", "range_end was one less", end_before},
      {"selection", "columns past whole fours were left out", no_tail_of_four},
      {"layout", "every row had the first row's scores", first_row_scores},
      {"conventions", "selected columns counted from range_begin, or not, other than declared",
       other_base},
      {"conventions", "selected columns were not in ascending order", other_order},
      {"conventions", "NaN was ranked other than declared", other_nan},
      {"conventions", "ties at the threshold fell to other columns", other_ties, true},
  };
  return variants;
}

}  // namespace mlacheck::stages
