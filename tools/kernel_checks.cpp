#include "tools/kernel_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "fixtures/case.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_check.h"
#include "tools/layer_kernels.h"
#include "tools/used_process.h"

namespace mlacheck {

namespace {

// One kernel's check, `check(KernelCheck&)`.
template <class Check>
std::vector<CheckResult> run_check(const KernelLibrary& library, const mlacheck_kernel& kernel,
                                   const std::string& repro, Check check) {
  KernelCheck used(library, kernel, repro);
  std::vector<CheckResult> results = check(used);
  if (!used.after_others() || !goes_wrong(results)) return results;
  KernelCheck fresh(library.afresh(), kernel, repro);
  return told_apart(std::move(results), check(fresh));
}

std::string_view asked_operator(const Recipe& recipe) {
  if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe))
    return scores->table == BlockTable::none ? "index_scores without a block table"
                                             : "index_scores";
  return std::holds_alternative<TopKRecipe>(recipe) ? "top_k" : "sparse_attention";
}

// What to say where nothing of the library could be judged.
CheckResult no_kernel(std::string_view asked, const KernelLibrary& library,
                      const std::string& repro) {
  std::set<std::string_view> offered;
  for (const mlacheck_kernel* kernel : library.kernels()) offered.insert(operator_name(kernel->op));
  return {library.path().filename().string(), Status::skipped,
          fmt::format("has no kernel for {}; it has {}", asked, fmt::join(offered, ", ")), repro,
          0};
}

}  // namespace

bool is_for(std::int32_t op, const Recipe& recipe) {
  if (std::holds_alternative<SparseAttentionRecipe>(recipe)) return op == MLACHECK_SPARSE_ATTENTION;
  if (std::holds_alternative<IndexScoresRecipe>(recipe))
    return op == MLACHECK_INDEX_SCORES || op == MLACHECK_INDEX_SELECT || op == MLACHECK_MAP_SLOTS;
  return std::holds_alternative<TopKRecipe>(recipe) && op == MLACHECK_TOP_K;
}

std::vector<CheckResult> check_kernel(const Recipe& recipe, const KernelLibrary& library,
                                      const mlacheck_kernel& kernel) {
  if (!is_for(kernel.op, recipe)) return {};
  return run_check(library, kernel, repro_of(recipe, &library),
                   [&](KernelCheck& check) { return check.run_recipe(recipe); });
}

std::vector<CheckResult> check_kernels(const Recipe& recipe, const KernelLibrary& library) {
  std::vector<CheckResult> all;
  check_each_kernel(recipe, library, [&](std::vector<CheckResult> results) {
    std::ranges::move(results, std::back_inserter(all));
  });
  return all;
}

void check_each_kernel(const Recipe& recipe, const KernelLibrary& library,
                       const std::function<void(std::vector<CheckResult>)>& found) {
  if (const auto* layer = std::get_if<LayerRecipe>(&recipe)) {
    const LayerCase c(*layer);
    return found(check_layer_kernels(c.sizes, c.numerics, c.input,
                                     attention_layer(c.sizes, c.numerics, c.weights, c.input),
                                     library, repro_of(recipe, &library)));
  }
  bool any = false;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    std::vector<CheckResult> results = check_kernel(recipe, library, *kernel);
    if (results.empty()) continue;
    any = true;
    found(std::move(results));
  }
  if (!any) found({no_kernel(asked_operator(recipe), library, repro_of(recipe, &library))});
}

std::vector<CheckResult> check_attention_kernels(const SparseAttentionProblem& problem,
                                                 const KernelLibrary& library,
                                                 const std::string& repro) {
  std::vector<CheckResult> results;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_SPARSE_ATTENTION) continue;
    for (CheckResult& result : run_check(library, *kernel, repro, [&](KernelCheck& check) {
           return check.run_attention(problem);
         }))
      results.push_back(std::move(result));
  }
  if (results.empty()) results.push_back(no_kernel("sparse_attention", library, repro));
  return results;
}

IndexKernelsCheck check_index_kernels(const IndexScoresProblem& problem, std::int64_t k,
                                      const KernelLibrary& library, const std::string& repro) {
  IndexKernelsCheck check;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_INDEX_SCORES && kernel->op != MLACHECK_INDEX_SELECT) continue;
    std::vector<std::int32_t> selected;
    for (CheckResult& result : run_check(library, *kernel, repro, [&](KernelCheck& one) {
           return one.run_index(problem, k, selected);
         }))
      check.results.push_back(std::move(result));
    if (check.selected.empty()) check.selected = std::move(selected);
  }
  return check;
}

std::optional<CallOutcome> support_of(const KernelLibrary& library, const mlacheck_kernel& kernel,
                                      const Recipe& recipe) {
  if (!is_for(kernel.op, recipe)) return std::nullopt;
  std::unique_ptr<KernelCall> call;
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    call = make_call(SparseAttentionCase(*attention));
  else if (const auto* top_k = std::get_if<TopKRecipe>(&recipe))
    call = make_call(problem_of(TopKCase(*top_k)));
  else
    call = index_call(kernel.op, IndexScoresCase(std::get<IndexScoresRecipe>(recipe)).problem);
  CallOutcome used = ask_in_worker(*call, library.target(kernel.name));
  if (used.calls_before == 0 || !is_wrong(status_of(used.kind))) return used;
  CallOutcome fresh = ask_in_worker(*call, library.afresh().target(kernel.name));
  if (is_wrong(status_of(fresh.kind))) return fresh;
  used.detail += kOnlyInAUsedProcess;
  return used;
}

CheckResult check_support(const Recipe& recipe, const KernelLibrary& library,
                          const mlacheck_kernel& kernel) {
  const CallOutcome outcome =
      support_of(library, kernel, recipe)
          .value_or(CallOutcome{.kind = CallOutcome::Kind::refused, .detail = "another operator"});
  CheckResult result = {name_of(library, kernel), status_of(outcome.kind), outcome.detail,
                        repro_of(recipe, &library)};
  result.hung = outcome.kind == CallOutcome::Kind::timed_out;
  return result;
}

std::vector<CheckResult> check_end(const KernelLibrary& library, const std::string& repro) {
  std::vector<CheckResult> results;
  for (const std::string& flaw : library.finish())
    results.push_back({fmt::format("{} end", library.path().filename().string()), Status::crashed,
                       kAfterLastAnswer + flaw, repro});
  return results;
}

}  // namespace mlacheck
