#include "property_tests/recipe_generator.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fixtures/recipe_fields.h"

namespace mlacheck {
namespace {

RC_GTEST_PROP(RecipeGenerator, DrawsValidRecipesThatReadBack, (std::uint64_t seed)) {
  const std::uint64_t number = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 48);
  for (const Operator op : kOperators) {
    const Recipe recipe = draw_recipe(op, seed, number);
    validate(recipe);
    RC_ASSERT(parse_recipe(canonical(recipe)) == recipe);
    RC_ASSERT(parse_recipe(minimal(recipe)) == recipe);
    RC_ASSERT(draw_recipe(op, seed, number) == recipe);
  }
}

// The same on every machine and build. New weights or sizes change it: then pin it again.
TEST(RecipeGenerator, SeriesArePinned) {
  EXPECT_EQ(
      minimal(draw_recipe(MLACHECK_SPARSE_ATTENTION, 1, 0)),
      "mlacheck1 op=sparse_attention h=3 k=15 n=15 q=f32 q_pad=3 kv=f32 out=f32 page=64 gap=1 "
      "pad=3 fill=needle kv_power=8 poison=on absent=scattered length=tiles junk=on scale=0 "
      "sink=random seed=1309176206");
  EXPECT_EQ(minimal(draw_recipe(MLACHECK_INDEX_SCORES, 1, 0)),
            "mlacheck1 op=index_scores h=89 n=128 q_pad=64 keys=e4m3 page=64 gap=3 range=random "
            "seed=3053542327");
  EXPECT_EQ(minimal(draw_recipe(MLACHECK_TOP_K, 1, 0)),
            "mlacheck1 op=top_k t=5 n=4097 k=2047 range=causal fill=winners seed=3506454251");
}

// How often each word of each key was drawn.
std::map<std::string, int> words_drawn(Operator op, std::uint64_t cases) {
  std::map<std::string, int> drawn;
  for (std::uint64_t number = 0; number < cases; ++number) {
    const Recipe recipe = draw_recipe(op, 1, number);
    std::visit(
        [&](const auto& r) {
          detail::visit_fields(r, [&]<class T, class D>(std::string_view key, const T& value,
                                                        const D& domain, std::string_view) {
            if constexpr (requires { domain.words; }) {
              for (const auto& entry : domain.words) drawn[fmt::format("{}={}", key, entry.first)];
              ++drawn[fmt::format("{}={}", key, domain.print(value))];
            }
          });
        },
        recipe);
  }
  return drawn;
}

// A word that is new in recipe_fields.h and has no weight here is not fuzzed.
TEST(RecipeGenerator, DrawsEveryWordOfEveryKey) {
  for (const Operator op : {MLACHECK_SPARSE_ATTENTION, MLACHECK_INDEX_SCORES, MLACHECK_TOP_K})
    for (const auto& [word, count] : words_drawn(op, 2000)) EXPECT_GE(count, 10) << word;
  EXPECT_EQ(words_drawn(MLACHECK_MAP_SLOTS, 500)["table=none"], 0);
}

TEST(RecipeGenerator, AimsAtTheBoundariesOfSizes) {
  std::set<std::int64_t> tokens, heads, topk, pages;
  bool beside_k = false, empty_cache = false;
  for (std::uint64_t number = 0; number < 20000; ++number) {
    const auto r =
        std::get<SparseAttentionRecipe>(draw_recipe(MLACHECK_SPARSE_ATTENTION, 1, number));
    tokens.insert(r.tokens);
    heads.insert(r.heads);
    topk.insert(r.topk);
    pages.insert(r.page_size);
    beside_k |= r.slots == r.topk + 1 && r.topk > 100;
    empty_cache |= r.slots == 0 && r.topk > 0;
  }
  EXPECT_THAT(std::vector<std::int64_t>(tokens.begin(), tokens.end()),
              ::testing::IsSupersetOf({0, 1, 2, 63, 64, 65, 65535, 65536, 65537, 70000}));
  EXPECT_THAT(std::vector<std::int64_t>(heads.begin(), heads.end()),
              ::testing::IsSupersetOf({1, 8, 11, 16, 17, 66, 128}));
  EXPECT_THAT(std::vector<std::int64_t>(topk.begin(), topk.end()),
              ::testing::IsSupersetOf({0, 1, 15, 16, 17, 63, 64, 65, 2047, 2048, 2049}));
  EXPECT_THAT(std::vector<std::int64_t>(pages.begin(), pages.end()),
              ::testing::IsSupersetOf({0, 1, 2, 53, 64, 256}));
  EXPECT_TRUE(beside_k);
  EXPECT_TRUE(empty_cache);
}

// What only shows past the limit of a grid, past 64 tokens or 2048 entries is drawn within the
// cases of one search, however the others fall; and such cases cost no more than others.
TEST(RecipeGenerator, DrawsLargeCasesOften) {
  int rows = 0, junk_past_length = 0, entries = 0, scores = 0;
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const auto r =
        std::get<SparseAttentionRecipe>(draw_recipe(MLACHECK_SPARSE_ATTENTION, 1, number));
    rows += r.tokens > 65535 ? 1 : 0;
    junk_past_length += r.tokens > 64 && r.length != LengthPattern::full && r.junk ? 1 : 0;
    entries += r.topk > 2048 ? 1 : 0;
    if (r.tokens >= 65535) {
      EXPECT_LE(r.tokens * r.heads * r.topk * r.qk_dim, 10'000'000);
    }
    const auto s = std::get<IndexScoresRecipe>(draw_recipe(MLACHECK_INDEX_SCORES, 1, number));
    scores += s.tokens > 65535 && s.keys > 0 ? 1 : 0;
  }
  EXPECT_GE(rows, 5);
  EXPECT_GE(scores, 15);
  EXPECT_GE(entries, 30);
  EXPECT_GE(junk_past_length, 20);
}

}  // namespace
}  // namespace mlacheck
