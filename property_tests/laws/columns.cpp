#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "property_tests/laws/edit.h"
#include "property_tests/laws/families.h"
#include "property_tests/laws/law_trial.h"
#include "tools/judgements.h"

namespace mlacheck::law {
namespace {

// Selections from given scores are exact, so each changed problem has one answer, or, where ties
// may fall anywhere, an exact test: the laws of top_k make problems.

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// -0 and +0 are equal, and so are all NaNs: every second one becomes another.
void run_equal_scores(const Recipe& recipe, LawTrial& trial) {
  TopKCase c(std::get<TopKRecipe>(recipe));
  const auto first = trial.run(make_call(problem_of(c)), "");
  if (!first) return;
  std::int64_t changed = 0, i = 0;
  for (std::uint32_t& bits : elements<std::uint32_t>(c.inputs[0])) {
    const float score = std::bit_cast<float>(bits);
    if (++i % 2 == 0 || (score != 0 && !std::isnan(score))) continue;
    bits ^= 0x80000000u;
    ++changed;
  }
  if (changed == 0) return trial.skip("no score is 0 or NaN");
  const auto second = trial.run(make_call(problem_of(c)), "zeros and NaN of other signs");
  if (!second) return;
  trial.expect_inside(c, *second, "zeros and NaN of other signs");
}

// Scores times 2^power keep their order where that is exact.
void run_score_power(const Recipe& recipe, LawTrial& trial) {
  TopKCase c(std::get<TopKRecipe>(recipe));
  const std::vector<float> values = values_of(c.inputs[0]);
  for (const int power : {1, 24, -24}) {
    std::vector<float> scaled = values;
    bool exact = true;
    for (float& x : scaled) {
      const float before = x;
      x = std::ldexp(before, power);
      exact = exact && (std::isnan(before) || std::ldexp(x, -power) == before);
    }
    const std::string what = fmt::format("scores * 2^{}", power);
    if (!exact) {
      trial.skip(what + " is not exact");
      continue;
    }
    set_values(c.inputs[0], scaled);
    const auto call = trial.run(make_call(problem_of(c)), what);
    if (call) trial.expect_inside(c, *call, what);
  }
}

// The case with `before` columns more at the start of every row and `after` at its end, all
// `score`.
TopKCase widened(const TopKRecipe& recipe, std::int64_t before, std::int64_t after, float score) {
  TopKCase c(recipe);
  const std::vector<float> values = values_of(c.inputs[0]);
  const std::int64_t n = recipe.scores, width = before + n + after;
  Tensor& scores = c.inputs[0];
  scores.shape.back() = c.recipe.scores = width;
  std::vector<float> wide(static_cast<std::size_t>(recipe.tokens * width), score);
  for (std::int64_t t = 0; t < recipe.tokens; ++t)
    std::copy_n(values.begin() + t * n, n, wide.begin() + t * width + before);
  scores.bytes.resize(wide.size() * sizeof(float));
  set_values(scores, wide);
  return c;
}

void run_appended_columns(const Recipe& recipe, LawTrial& trial) {
  const auto& r = std::get<TopKRecipe>(recipe);
  for (const std::int64_t more : {1, 67}) {
    TopKCase c = widened(r, 0, more, -kInfinite);
    // Rows that end at the last column take the new ones in.
    for (std::int32_t& end : elements<std::int32_t>(c.inputs[2]))
      if (end == r.scores) end = static_cast<std::int32_t>(c.recipe.scores);
    const std::string what = fmt::format("{} columns of -inf appended", more);
    const auto call = trial.run(make_call(problem_of(c)), what);
    if (call) trial.expect_inside(c, *call, what);
  }
}

void run_shifted_range(const Recipe& recipe, LawTrial& trial) {
  const auto& r = std::get<TopKRecipe>(recipe);
  for (const std::int64_t shift : {1, 129}) {
    // What stands before the range would win.
    TopKCase c = widened(r, shift, 0, kInfinite);
    for (const std::size_t bound : {1, 2})
      for (std::int32_t& x : elements<std::int32_t>(c.inputs[bound]))
        x += static_cast<std::int32_t>(shift);
    const std::string what = fmt::format("rows begin {} columns later", shift);
    const auto call = trial.run(make_call(problem_of(c)), what);
    if (call) trial.expect_inside(c, *call, what);
  }
}

// Keys fewer, or more that no row's range holds: the scores of the others.
void run_appended_keys(const Recipe& recipe, LawTrial& trial) {
  auto r = std::get<IndexScoresRecipe>(recipe);
  const IndexScoresCase whole(r);
  const IndexScoresProblem& p = whole.problem;
  const auto first = trial.run(p, "");
  if (!first) return;
  // Slots past the last key exist where a page is not full; a flat cache has none.
  const std::int64_t most =
      r.table == BlockTable::none ? 0 : p.block_table_stride * p.block_size - r.keys;
  const std::int64_t less = std::min<std::int64_t>(r.keys - 1, 65);
  if (less <= 0 && most <= 0) return trial.skip("no key to append or to leave out");
  for (const std::int64_t more : {-less, most}) {
    if (more == 0) continue;
    IndexScoresProblem changed = p;
    changed.key_count += more;
    std::vector<std::int32_t> begin, end;
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const std::int64_t b = p.key_begin == nullptr ? 0 : p.key_begin[t];
      const std::int64_t e = p.key_end == nullptr ? r.keys : p.key_end[t];
      begin.push_back(static_cast<std::int32_t>(std::min(b, changed.key_count)));
      end.push_back(static_cast<std::int32_t>(std::min(e, changed.key_count)));
    }
    if (p.key_end != nullptr || more > 0) {
      changed.key_begin = begin.data();
      changed.key_end = end.data();
    }
    const std::string what =
        fmt::format("{} keys", more > 0 ? fmt::format("+{}", more) : fmt::format("{}", more));
    const auto second = trial.run(changed, what);
    if (!second) continue;
    trial.expect_inside(changed, *second, what);
    if (!trial.contract().batch_invariant || !trial.contract().masks_scores) continue;
    const std::vector<float> a = scores_result(*first), b = scores_result(*second);
    std::vector<float> before, after;
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const std::int64_t n = std::min(p.key_count, changed.key_count);
      before.insert(before.end(), a.begin() + t * p.key_count, a.begin() + t * p.key_count + n);
      after.insert(after.end(), b.begin() + t * changed.key_count,
                   b.begin() + t * changed.key_count + n);
    }
    trial.expect_bits("scores_out", std::as_bytes(std::span(before)),
                      std::as_bytes(std::span(after)), DType::f32, what);
  }
}

bool is_scores(const Recipe& recipe, const mlacheck_kernel& kernel) {
  return is_index(recipe, kernel) && kernel.op == MLACHECK_INDEX_SCORES;
}

}  // namespace

Law equal_scores() {
  return {"equal_scores", "zeros and NaN of other signs: the same selection", is_top_k,
          run_equal_scores};
}

Law score_power() {
  return {"score_power", "scores * 2^p, exactly: the same selection", is_top_k, run_score_power};
}

Law appended_columns() {
  return {"appended_columns", "columns of -inf at the end: selected where nothing else is left",
          is_top_k, run_appended_columns};
}

Law shifted_range() {
  return {"shifted_range", "ranges that begin later: the same selection, by the index convention",
          is_top_k, run_shifted_range};
}

Law appended_keys() {
  return {"appended_keys",
          "more or fewer keys: the scores of the others, by bits where a row's are promised to "
          "depend on it alone, else inside the interval",
          is_scores, run_appended_keys};
}

}  // namespace mlacheck::law
