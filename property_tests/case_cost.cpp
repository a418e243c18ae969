#include "property_tests/case_cost.h"

#include <cstdint>
#include <type_traits>
#include <variant>

#include "fixtures/recipe_size.h"

namespace mlacheck {
namespace {

// Of stretched pages, in the case and in calls.
double stretched_ms(bool stretch, std::int64_t slots, std::int64_t page) {
  return stretch ? 0.02 * (static_cast<double>(slots) / static_cast<double>(page) + 1) : 0;
}

}  // namespace

double cost_ms(const SparseAttentionRecipe& r) {
  // The oracle takes its time over weights that all but vanish.
  const double slow = r.fill == AttentionFill::needle || r.fill == AttentionFill::ladder ? 4 : 1;
  const double weights = slow * static_cast<double>(r.tokens * r.heads * r.topk);
  const double products = weights * static_cast<double>(r.qk_dim + r.v_dim);
  const double filled =
      static_cast<double>(r.slots + r.tokens * r.heads) * static_cast<double>(r.qk_dim) +
      static_cast<double>(r.tokens * r.heads * r.v_dim);
  const double stored =
      cache_rows(r.slots, r.page_size, r.page_gap) * static_cast<double>(r.qk_dim + r.row_pad);
  const double stretched = stretched_ms(r.stretch, r.slots, r.page_size);
  return stretched + 1e-6 * (1.2 * products + 150 * weights + 10 * filled + stored +
                             20 * static_cast<double>(r.tokens * r.topk));
}

double cost_ms(const IndexScoresRecipe& r) {
  const double products =
      static_cast<double>(r.tokens * r.heads) * static_cast<double>(r.keys * r.dim);
  const double filled =
      static_cast<double>(r.requests * r.keys + r.tokens * r.heads) * static_cast<double>(r.dim);
  const double stored = static_cast<double>(r.requests) *
                        cache_rows(r.keys, r.page_size, r.page_gap) * static_cast<double>(r.dim);
  const double stretched = stretched_ms(r.stretch, r.requests * r.keys, r.page_size);
  return stretched + 1e-6 * (0.4 * products + 3 * filled + stored +
                             20 * static_cast<double>(r.tokens * r.keys));
}

double cost_ms(const TopKRecipe& r) {
  return 1e-6 * (15 * static_cast<double>(r.tokens * r.scores) +
                 5 * static_cast<double>(r.tokens * r.topk));
}

double cost_ms(const Recipe& recipe) {
  return std::visit(
      []<class R>(const R& r) {
        if constexpr (std::is_same_v<R, LayerRecipe>)
          return 0.0;
        else
          return cost_ms(r);
      },
      recipe);
}

}  // namespace mlacheck
