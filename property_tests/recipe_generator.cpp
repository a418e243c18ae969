#include "property_tests/recipe_generator.h"

#include <stdexcept>

#include "cuda/plugin/kernel_library.h"
#include "property_tests/generators.h"

namespace mlacheck {

Recipe draw_recipe(Operator op, std::uint64_t seed, std::uint64_t number, Narrowing* narrowing) {
  const Draw draw(operator_name(op), seed, number, narrowing);
  switch (op) {
    case MLACHECK_SPARSE_ATTENTION:
      return draw_attention(draw);
    case MLACHECK_INDEX_SCORES:
    case MLACHECK_INDEX_SELECT:
      return draw_index_scores(draw, false);
    case MLACHECK_MAP_SLOTS:
      return draw_index_scores(draw, true);
    case MLACHECK_TOP_K:
      return draw_top_k(draw);
  }
  throw std::invalid_argument(fmt::format("draw_recipe: there is no operator {}", int{op}));
}

Table<Sizes> page_sizes() {
  return {{0, 6}, {1, 3}, {2, 2}, {16, 1}, {53, 3}, {64, 8}, {256, 3}, {{3, 130}, 1}};
}

Table<Sizes> page_gaps() { return {{0, 4}, {1, 3}, {3, 1}, {64, 1}}; }

Table<Sizes> query_pads() { return {{0, 12}, {8, 2}, {64, 1}, {1, 1}, {3, 1}}; }

Table<PoisonValue> poison_values() {
  return {{PoisonValue::nan, 4}, {PoisonValue::large, 1}, {PoisonValue::seven, 1}};
}

std::int64_t draw_around(const Draw& draw, std::string_view key, std::int64_t n, std::int64_t page,
                         std::int64_t most) {
  const auto part = [&](std::string_view name) { return fmt::format("{}.{}", key, name); };
  const std::int64_t pages = (page == 0 ? 64 : page) * draw.range(part("pages"), 1, 4);
  return draw.one_of<std::int64_t>(key, {{n, 4},
                                         {n + 1, 3},
                                         {std::max<std::int64_t>(n - 1, 0), 2},
                                         {2 * n, 2},
                                         {2 * n + 1, 1},
                                         {n / 2, 2},
                                         {pages, 2},
                                         {pages + 1, 3},
                                         {pages - 1, 2},
                                         {n + pages, 4},
                                         {draw.range(part("few"), 0, 5), 2},
                                         {draw.range(part("any"), 1, most), 10}});
}

bool draw_stretch(const Draw& draw, std::int64_t slots, std::int64_t page) {
  return page > 0 && slots > page && slots / page < 400 && draw.once("stretch", 8);
}

Extent draw_extent(const Draw& draw, std::uint64_t rows) {
  return draw.one_of<Extent>("extent", {{{0, 4}, 1600},
                                        {{4, 25}, 160},
                                        {{40, 300}, 6},
                                        {{0, 300, Large::rows}, rows},
                                        {{0, 25, Large::tokens}, 100},
                                        {{0, 25, Large::entries}, 60}});
}

std::int64_t past_grid_limit(const Draw& draw) {
  return draw.size("t.many", {{65535, 1}, {65536, 1}, {65537, 1}, {70000, 1}});
}

}  // namespace mlacheck
