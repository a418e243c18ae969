#pragma once

#include "fixtures/recipe.h"
#include "property_tests/draw.h"

namespace mlacheck {

// draw_recipe for each kind of recipe. Scores of which k are selected, or positions of a block
// table are mapped, lie around k, or have a table.
SparseAttentionRecipe draw_attention(Draw draw);
IndexScoresRecipe draw_index_scores(Draw draw, bool needs_table);
TopKRecipe draw_top_k(Draw draw);

}  // namespace mlacheck
