#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_worker.h"
#include "fixtures/recipe.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/sparse_attention.h"
#include "tools/report.h"

namespace mlacheck {

// Whether a kernel of this operator is judged on this recipe: index_select and map_slots on
// index_scores' own. A layer's is the business of layer_kernels.h.
bool is_for(std::int32_t op, const Recipe& recipe);

// Every kernel of the library for the recipe's operator: its outputs against the oracle by the
// interval of the contract that it declares, guard bands, inputs, and what else it promises: the
// bits of a second run, and a batch-invariant mode, whose outputs are judged too ("batch invariant
// ..."), in which a row has the same bits alone: out and lse of the last one are compared, which is
// asked for without max_logit. Recipes of index_scores are put to index_select and map_slots too.
// SKIPPED, with what the library has, when nothing of it can be judged.
std::vector<CheckResult> check_kernels(const Recipe& recipe, const KernelLibrary& library);

// The same, kernel by kernel: `found` gets each one's before the next is called. A layer's come
// together.
void check_each_kernel(const Recipe& recipe, const KernelLibrary& library,
                       const std::function<void(std::vector<CheckResult>)>& found);

// The same for one kernel of the library; empty when the recipe is for another operator's, or a
// layer.
std::vector<CheckResult> check_kernel(const Recipe& recipe, const KernelLibrary& library,
                                      const mlacheck_kernel& kernel);

// The same for sparse attention on given inputs; `repro` repeats it.
std::vector<CheckResult> check_attention_kernels(const SparseAttentionProblem& problem,
                                                 const KernelLibrary& library,
                                                 const std::string& repro);

// The library's index_scores and index_select kernels on given inputs, k keys to be selected; and
// what the first index_select that ended well selected: [tokens, k], empty where there is none.
struct IndexKernelsCheck {
  std::vector<CheckResult> results;
  std::vector<std::int32_t> selected;
};
IndexKernelsCheck check_index_kernels(const IndexScoresProblem& problem, std::int64_t k,
                                      const KernelLibrary& library, const std::string& repro);

// Asks a kernel of the library, in a process of its own, whether it supports the recipe's problem:
// done when it does. Empty for a kernel of another operator.
std::optional<CallOutcome> support_of(const KernelLibrary& library, const mlacheck_kernel& kernel,
                                      const Recipe& recipe);

// The same as a result: PASS where it does.
CheckResult check_support(const Recipe& recipe, const KernelLibrary& library,
                          const mlacheck_kernel& kernel);

// Once nothing more is asked of the library: CRASHED for each way in which a process that has made
// its calls came to a bad end after them, which `repro` repeats. Empty where all ended well.
std::vector<CheckResult> check_end(const KernelLibrary& library, const std::string& repro);

}  // namespace mlacheck
