#include "tools/case_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "fixtures/case.h"
#include "reference/operators/top_k.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/check_layer.h"
#include "tools/judgements.h"
#include "tools/kernel_checks.h"
#include "tools/stopwatch.h"

namespace mlacheck {

namespace {

std::vector<Finding> reference_findings(const SparseAttentionRecipe& recipe) {
  const SparseAttentionCase c(recipe);
  return judge(c.problem, reference_contract(), sparse_attention(c.problem));
}

std::vector<Finding> reference_findings(const IndexScoresRecipe& recipe) {
  const IndexScoresCase c(recipe);
  NumericsContract contract = reference_contract();
  if (recipe.reduction == HeadReduction::sequential)
    contract.index_heads.order = SumOrder::sequential;
  return {
      check_index_scores(c.problem, contract, index_scores(c.problem, recipe.reduction).data())};
}

std::vector<Finding> reference_findings(const TopKRecipe& recipe) {
  const TopKCase c(recipe);
  const TopKProblem p = problem_of(c);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(p.rows * p.k));
  for (std::int64_t row = 0; row < p.rows; ++row)
    top_k(p.scores + row * p.columns, p.row_begin[row], p.row_end[row], p.k,
          selected.data() + row * p.k);
  return judge(c, reference_contract(), false, selected);
}

std::vector<Finding> reference_findings(const LayerRecipe& recipe) {
  const LayerCase c(recipe);
  return check_layer(c.sizes, c.numerics, c.weights, c.input,
                     attention_layer(c.sizes, c.numerics, c.weights, c.input));
}

}  // namespace

CheckResult worst_of(std::string name, const std::vector<CheckResult>& results) {
  CheckResult worst;
  worst.name = std::move(name);
  if (results.empty()) {
    worst.status = Status::skipped;
    worst.detail = "nothing to check";
  }
  for (const CheckResult& result : results) {
    worst.seconds = std::max(worst.seconds, result.seconds);
    worst.repro = result.repro;
    if (result.status > worst.status) {
      worst.detail.clear();
      worst.pictures.clear();
    }
    worst.status = std::max(worst.status, result.status);
    if (result.status != worst.status) continue;
    worst.detail +=
        fmt::format("{}{}{}", worst.detail.empty() ? "" : "\n",
                    worst.name.ends_with(result.name) ? "" : result.name + ": ", result.detail);
    worst.pictures.insert(worst.pictures.end(), result.pictures.begin(), result.pictures.end());
  }
  return worst;
}

std::vector<CheckResult> check_recipe(const Recipe& recipe,
                                      std::span<const KernelLibrary> libraries) {
  std::vector<CheckResult> results = {worst_of("reference", check_reference(recipe))};
  for (const KernelLibrary& library : libraries) {
    std::vector<CheckResult> of_kernels = check_kernels(recipe, library);
    // What one kernel refuses another of the library may be for.
    const auto is_refusal = [](const CheckResult& r) { return r.status == Status::refused; };
    if (!std::ranges::all_of(of_kernels, is_refusal)) std::erase_if(of_kernels, is_refusal);
    results.push_back(worst_of(library.path().filename().string(), of_kernels));
  }
  return results;
}

std::vector<CheckResult> check_reference(const Recipe& recipe) {
  const Stopwatch watch;
  const std::vector<Finding> findings =
      std::visit([](const auto& r) { return reference_findings(r); }, recipe);
  std::vector<CheckResult> results;
  for (const Finding& finding : findings) {
    results.push_back(to_result("reference", finding, repro_of(recipe, nullptr)));
    distrust(results.back(), recipe);
  }
  if (!results.empty()) results.back().seconds = watch.seconds();
  return results;
}

}  // namespace mlacheck
