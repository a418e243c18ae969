#pragma once

#include "fixtures/recipe.h"
#include "property_tests/laws/law.h"

// The laws, each beside its family; laws() lists them.
namespace mlacheck::law {

// Of sparse_attention.
Law absent_values();
Law appended_absent();
Law past_length();
Law index_order();
Law solo_rows();
Law split_and_merge();
Law value_shift();
Law cache_power();
Law latent_order();

// Of index_scores and index_select.
Law head_order();
Law weight_power();
Law appended_keys();

// Of top_k.
Law equal_scores();
Law score_power();
Law appended_columns();
Law shifted_range();

// Of several operators.
Law moved_pages();
Law unread_bytes();
Law row_order();
Law repeated_launch();
Law reused_scratch();

// Whether the recipe is R's and the kernel one for it.
inline bool is_attention(const Recipe& recipe, const mlacheck_kernel& kernel) {
  const auto* r = std::get_if<SparseAttentionRecipe>(&recipe);
  return r != nullptr && kernel.op == MLACHECK_SPARSE_ATTENTION && r->tokens > 0;
}
inline bool is_index(const Recipe& recipe, const mlacheck_kernel& kernel) {
  const auto* r = std::get_if<IndexScoresRecipe>(&recipe);
  return r != nullptr && r->tokens > 0 && r->keys > 0 &&
         (kernel.op == MLACHECK_INDEX_SCORES || kernel.op == MLACHECK_INDEX_SELECT);
}
inline bool is_top_k(const Recipe& recipe, const mlacheck_kernel& kernel) {
  const auto* r = std::get_if<TopKRecipe>(&recipe);
  return r != nullptr && kernel.op == MLACHECK_TOP_K && r->tokens > 0 && r->topk > 0;
}
inline bool is_any(const Recipe& recipe, const mlacheck_kernel& kernel) {
  return is_attention(recipe, kernel) || is_index(recipe, kernel) || is_top_k(recipe, kernel);
}

}  // namespace mlacheck::law
