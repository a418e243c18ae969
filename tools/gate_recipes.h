#pragma once

#include <vector>

#include "fixtures/recipe.h"

namespace mlacheck {

// The cases that the gate puts to every kernel, beside the golden files: for each operator the
// exact fills, whose verdict needs no tolerance, the statistical regimes, and the rows that kernels
// of the field get wrong.
std::vector<Recipe> gate_recipes();

}  // namespace mlacheck
