#pragma once

#include "fixtures/recipe.h"

namespace mlacheck {

// Milliseconds that a case takes with the reference as the kernel and its verdict, on one core,
// roughly: what tells long ones from short ones. Of a layer, which is not drawn, none.
double cost_ms(const SparseAttentionRecipe& recipe);
double cost_ms(const IndexScoresRecipe& recipe);
double cost_ms(const TopKRecipe& recipe);
double cost_ms(const Recipe& recipe);

}  // namespace mlacheck
