#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "tools/report.h"

namespace mlacheck {

// The reference against the oracle, by the interval of its own contract, a result for each output;
// of a layer, for each stage.
std::vector<CheckResult> check_reference(const Recipe& recipe);

// One result for the reference and for each of the libraries (kernel_checks.h): the worst of their
// outputs, where some kernel of a library takes the case without those that refuse it.
std::vector<CheckResult> check_recipe(const Recipe& recipe,
                                      std::span<const KernelLibrary> libraries);

// The worst of several results as one, with the details of those that are as bad, a line each.
// SKIPPED when there are none.
CheckResult worst_of(std::string name, const std::vector<CheckResult>& results);

}  // namespace mlacheck
