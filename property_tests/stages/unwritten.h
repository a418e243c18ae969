#pragma once

#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "property_tests/stages/stage.h"

namespace mlacheck::stages {

// Outputs of a finished call of which elements still hold what they held before it. What else would
// give the rest of the answer cannot be told then: a variant that leaves them aside, as keys out of
// range are, explains nothing. Scores outside of their ranges count where `masked`.
std::vector<Suspect> unwritten(const KernelCall& call);
std::vector<Suspect> unwritten(const KernelCall& call, const IndexScoresProblem& problem,
                               bool masked);

}  // namespace mlacheck::stages
