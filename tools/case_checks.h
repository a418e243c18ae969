#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "reference/operators/sparse_attention.h"
#include "tools/report.h"

namespace mlacheck {

// The checks of one case, by its recipe: one result for the reference and for each kernel of the
// libraries, the worst of their outputs.
std::vector<CheckResult> check_recipe(const Recipe& recipe,
                                      std::span<const KernelLibrary> libraries);

// The same, a result for each output.

// The reference against the oracle, by the interval of its own contract; of a layer, stage by
// stage.
std::vector<CheckResult> check_reference(const Recipe& recipe);

// Every kernel of the library for the recipe's operator: its outputs against the oracle by the
// interval of the contract that it declares, guard bands, inputs, and the bits of a second run
// where it promises them. Empty when the library has no kernel for the operator.
std::vector<CheckResult> check_kernels(const Recipe& recipe, const KernelLibrary& library);

// The same for sparse attention on given inputs; `repro` repeats it.
std::vector<CheckResult> check_attention_kernels(const SparseAttentionProblem& problem,
                                                 const KernelLibrary& library,
                                                 const std::string& repro);

// Whether the kernel supports the recipe's problem: "supports it", "refuses: ...", or "is for
// another operator".
std::string support_of(const mlacheck_kernel& kernel, const Recipe& recipe);

// The worst of several results as one, with the details of those that are as bad.
CheckResult worst_of(std::string name, const std::vector<CheckResult>& results);

}  // namespace mlacheck
