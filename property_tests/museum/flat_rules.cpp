#include "property_tests/museum/flat_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cuda/plugin/kernel_worker.h"
#include "fixtures/case.h"
#include "reference/operators/top_k.h"
#include "reference/operators/views.h"
#include "reference/oracle/index_scores_oracle.h"
#include "reference/oracle/sparse_attention_oracle.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"

namespace mlacheck::museum {

namespace {

enum Rule : std::size_t { close_5e2, close_2e2, cosine, twice, sorted };

using Values = std::vector<double>;

FlatVerdict catches(bool caught) { return caught ? FlatVerdict::catches : FlatVerdict::passes; }

bool close(double got, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= tolerance + tolerance * std::abs(expected);
}

bool all_close(std::span<const float> got, const Values& expected, double tolerance) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!close(static_cast<double>(got[i]), expected[i], tolerance)) return false;
  return true;
}

// Written so that NaN is caught. Infinities that agree do not count.
bool cosine_catches(std::span<const float> got, const Values& expected) {
  double product = 0, squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto x = static_cast<double>(got[i]);
    if (x == expected[i] && std::isinf(x)) continue;
    if (std::isnan(x) && std::isnan(expected[i])) continue;
    product += x * expected[i];
    squares += x * x + expected[i] * expected[i];
  }
  return squares != 0 && !(1 - 2 * product / squares <= 1e-3);
}

double largest_error(std::span<const float> got, const Values& expected) {
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!std::isnan(expected[i]) && !(e <= error)) error = e;
  }
  return error;
}

// One head in the inputs' type: scores, weights and the result are rounded to it.
void attend_in(DType dtype, const SparseAttentionOracle& oracle, std::int64_t h,
               std::vector<float>& out) {
  const std::int64_t n = oracle.keys;
  std::vector<float> weights;
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    weights.push_back(round_to(dtype, static_cast<float>(oracle.score(h, j))));
    max = std::max(max, weights.back());
  }
  for (float& weight : weights) sum += weight = std::exp(weight - max);
  const std::int64_t columns = oracle.mean.cols();
  for (std::int64_t c = 0; c < columns; ++c) {
    float value = 0;
    for (std::int64_t j = 0; j < n; ++j)
      value += round_to(dtype, weights[static_cast<std::size_t>(j)] / sum) *
               static_cast<float>(oracle.value(j, c));
    out.push_back(n == 0 ? 0.0f
                         : round_to(dtype, value * static_cast<float>(oracle.sink_factor[h])));
  }
}

FlatVerdicts judge_attention(const SparseAttentionRecipe& recipe, const KernelTarget& target) {
  FlatVerdicts verdicts = {FlatVerdict::catches, FlatVerdict::catches, FlatVerdict::catches,
                           FlatVerdict::catches, FlatVerdict::not_applicable};
  const SparseAttentionCase c(recipe);
  if (recipe.q_dtype == DType::f32) verdicts[twice] = FlatVerdict::not_applicable;
  const std::unique_ptr<KernelCall> call = make_call(c);
  if (run_in_worker(*call, target).kind != CallOutcome::Kind::done) return verdicts;
  const SparseAttentionResult got = attention_result(*call);
  Values out, lse;
  std::vector<float> same_type;
  for (std::int64_t t = 0; t < recipe.tokens; ++t) {
    const SparseAttentionOracle oracle = sparse_attention_oracle(c.problem, t);
    for (std::int64_t h = 0; h < recipe.heads; ++h) {
      lse.push_back(oracle.lse[h]);
      for (std::int64_t i = 0; i < recipe.v_dim; ++i)
        out.push_back(oracle.mean(h, i) * oracle.sink_factor[h]);
      if (verdicts[twice] != FlatVerdict::not_applicable)
        attend_in(recipe.q_dtype, oracle, h, same_type);
    }
  }
  const auto loose = [&](double tolerance) {
    return catches(!all_close(got.out, out, tolerance) || !all_close(got.lse, lse, tolerance));
  };
  verdicts[close_5e2] = loose(5e-2);
  verdicts[close_2e2] = loose(2e-2);
  verdicts[cosine] = catches(cosine_catches(got.out, out));
  if (verdicts[twice] != FlatVerdict::not_applicable)
    verdicts[twice] = catches(!(largest_error(got.out, out) <= 2 * largest_error(same_type, out)));
  return verdicts;
}

FlatVerdicts judge_scores(const IndexScoresProblem& problem, const KernelTarget& target) {
  FlatVerdicts verdicts = {FlatVerdict::catches, FlatVerdict::catches, FlatVerdict::catches,
                           FlatVerdict::not_applicable, FlatVerdict::not_applicable};
  const std::unique_ptr<KernelCall> call = make_call(problem);
  if (run_in_worker(*call, target).kind != CallOutcome::Kind::done) return verdicts;
  const std::vector<float> got = scores_result(*call);
  Values expected(got.size(), -std::numeric_limits<double>::infinity());
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const IndexScoresOracle oracle = index_scores_oracle(problem, t);
    std::ranges::copy(oracle.score, expected.begin() + t * problem.key_count + oracle.begin);
  }
  verdicts[close_5e2] = catches(!all_close(got, expected, 5e-2));
  verdicts[close_2e2] = catches(!all_close(got, expected, 2e-2));
  verdicts[cosine] = catches(cosine_catches(got, expected));
  return verdicts;
}

// Whether the scores of a row's members, sorted, are far from those of its k largest. `at` is the
// score of an index, of which the row has [begin, end).
template <class At>
bool sorted_scores_differ(std::span<const std::int32_t> selected, std::int64_t begin,
                          std::int64_t end, At at) {
  Values got, expected;
  for (const std::int32_t index : selected) {
    if (index == -1) continue;
    if (index < begin || index >= end) return true;
    got.push_back(at(index));
  }
  for (std::int64_t j = begin; j < end; ++j) expected.push_back(at(j));
  // NaN is least.
  const auto larger = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a > b; };
  std::ranges::sort(got, larger);
  std::ranges::sort(expected, larger);
  expected.resize(std::min(expected.size(), selected.size()));
  return got.size() != expected.size() ||
         !std::ranges::equal(got, expected, [](double a, double b) { return close(a, b, 1e-2); });
}

constexpr FlatVerdicts kSortedCatches = {FlatVerdict::not_applicable, FlatVerdict::not_applicable,
                                         FlatVerdict::not_applicable, FlatVerdict::not_applicable,
                                         FlatVerdict::catches};

// Judges each row of a selection; `differs` its k members.
template <class Differs>
FlatVerdicts judge_selection(const KernelCall& call, const KernelTarget& target, std::int64_t rows,
                             std::int64_t k, Differs differs) {
  FlatVerdicts verdicts = kSortedCatches;
  if (run_in_worker(call, target).kind != CallOutcome::Kind::done) return verdicts;
  const std::vector<std::int32_t> selected = selected_result(call);
  bool caught = false;
  for (std::int64_t row = 0; row < rows && !caught; ++row)
    caught = differs(row, std::span(selected).subspan(static_cast<std::size_t>(row * k),
                                                      static_cast<std::size_t>(k)));
  verdicts[sorted] = catches(caught);
  return verdicts;
}

FlatVerdicts judge_select(const IndexScoresProblem& problem, const KernelTarget& target) {
  const std::int64_t k = selected_keys(problem);
  const std::unique_ptr<KernelCall> call = make_select_call(problem, k);
  return judge_selection(*call, target, problem.tokens, k,
                         [&](std::int64_t row, std::span<const std::int32_t> selected) {
                           const IndexScoresOracle oracle = index_scores_oracle(problem, row);
                           return sorted_scores_differ(
                               selected, oracle.begin, oracle.end, [&](std::int64_t j) {
                                 return oracle.score[static_cast<std::size_t>(j - oracle.begin)];
                               });
                         });
}

FlatVerdicts judge_top_k(const TopKRecipe& recipe, const KernelTarget& target) {
  const TopKCase c(recipe);
  const TopKProblem problem = problem_of(c);
  const std::unique_ptr<KernelCall> call = make_call(problem);
  return judge_selection(
      *call, target, problem.rows, problem.k,
      [&](std::int64_t row, std::span<const std::int32_t> selected) {
        return sorted_scores_differ(
            selected, problem.row_begin[row], problem.row_end[row], [&](std::int64_t j) {
              return static_cast<double>(problem.scores[row * problem.columns + j]);
            });
      });
}

}  // namespace

FlatVerdicts flat_verdicts(const Recipe& recipe, const KernelLibrary& library,
                           const mlacheck_kernel& kernel) {
  const KernelTarget target = library.target(kernel.name);
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    return judge_attention(as_read_by(kernel, *attention), target);
  if (const auto* top_k = std::get_if<TopKRecipe>(&recipe)) return judge_top_k(*top_k, target);
  if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe)) {
    const IndexScoresCase c(*scores);
    if (kernel.op == MLACHECK_INDEX_SCORES) return judge_scores(c.problem, target);
    if (kernel.op == MLACHECK_INDEX_SELECT) return judge_select(c.problem, target);
  }
  return {};
}

}  // namespace mlacheck::museum
