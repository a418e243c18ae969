#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/case.h"
#include "fixtures/recipe.h"
#include "property_tests/stages/patience.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck {

// A wrong variant of an operator that gives what a kernel gave.
struct Suspect {
  std::string stage;       // scores, selection, softmax, values, merge, layout, conventions, output
  std::string as_if;       // "the RoPE elements were left out of q . k"
  double budget_used = 0;  // share of the variant's own proven bound that the kernel's answer takes
};

// Variants whose admissible interval holds every output of the kernel, from the closest on. None
// where the right answer's does too: then nothing is to be explained. Each is a problem, convention
// or output changed as by one bug, judged as the operator itself is, so that a suspect explains the
// error to within the bound. `patience` knows of how many there was no time for.
std::vector<Suspect> suspects(const SparseAttentionCase& c, const NumericsContract& contract,
                              const SparseAttentionResult& result, Patience& patience);
std::vector<Suspect> suspects(const IndexScoresCase& c, const NumericsContract& contract,
                              const std::vector<float>& scores, Patience& patience);
std::vector<Suspect> suspects(const TopKCase& c, const NumericsContract& contract,
                              bool row_relative, const std::vector<std::int32_t>& selected,
                              Patience& patience);

// Runs the kernel on each of the recipes (the failing one and what it shrank to) and says what
// explains them all, or which outputs were not written whole: "as if: the RoPE elements were left
// out of q . k; stage: scores". Empty where nothing does. Of a case of which not all variants could
// be tried in the seconds it says so.
std::string explain_failure(std::span<const Recipe> recipes, const KernelLibrary& library,
                            const mlacheck_kernel& kernel, double seconds);

}  // namespace mlacheck
