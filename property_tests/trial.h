#pragma once

#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "fixtures/recipe.h"
#include "tools/report.h"

namespace mlacheck {

// Whether a kernel of this operator is judged on this recipe: index_select and map_slots on index_scores' own. A
// layer's is the business of layer_kernels.h.
inline bool is_for(std::int32_t op, const Recipe& recipe) {
  if (std::holds_alternative<SparseAttentionRecipe>(recipe)) return op == MLACHECK_SPARSE_ATTENTION;
  if (std::holds_alternative<IndexScoresRecipe>(recipe))
    return op == MLACHECK_INDEX_SCORES || op == MLACHECK_INDEX_SELECT || op == MLACHECK_MAP_SLOTS;
  return std::holds_alternative<TopKRecipe>(recipe) && op == MLACHECK_TOP_K;
}

// Puts a case to the kernel under test: what every check said. Empty where the recipe is none for it.
using Trial = std::function<std::vector<CheckResult>(const Recipe&)>;

}  // namespace mlacheck
