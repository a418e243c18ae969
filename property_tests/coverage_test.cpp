#include "property_tests/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlacheck {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Coverage drawn(Operator op, std::uint64_t cases) {
  Coverage coverage(op);
  for (std::uint64_t number = 0; number < cases; ++number)
    coverage.count(draw_recipe(op, 1, number), true);
  return coverage;
}

// A short campaign is enough to look for every error; a class that is new in error_class.h and that
// cases show must be in errors_of.
TEST(Coverage, DrawnRecipesShowEveryErrorOfTheirOperator) {
  for (const Operator op : kOperators) {
    EXPECT_THAT(drawn(op, 300).never_visible(), IsEmpty()) << int{op};
    ErrorClasses shown;
    for (std::uint64_t number = 0; number < 1000; ++number)
      shown |= shown_by(draw_recipe(op, 1, number));
    if (op == MLACHECK_MAP_SLOTS) continue;  // scores are nothing to it
    EXPECT_EQ(shown, errors_of(op)) << int{op};
  }
}

TEST(Coverage, EveryClassIsReached) {
  for (const Operator op : {MLACHECK_SPARSE_ATTENTION, MLACHECK_INDEX_SCORES, MLACHECK_TOP_K}) {
    const auto keys = coverage_keys(draw_recipe(op, 1, 0));
    std::vector<std::vector<int>> counts;
    for (const CoverageKey& key : keys) counts.emplace_back(key.classes.size());
    for (std::uint64_t number = 0; number < 4000; ++number) {
      const auto classes = coverage_classes(draw_recipe(op, 1, number));
      ASSERT_EQ(classes.size(), keys.size());
      for (std::size_t i = 0; i < classes.size(); ++i) ++counts[i][classes[i]];
    }
    for (std::size_t i = 0; i < keys.size(); ++i)
      for (std::size_t j = 0; j < counts[i].size(); ++j) {
        const std::string name = keys[i].key + " " + keys[i].classes[j];
        if (name == "h more" || name == "page more") continue;  // not drawn
        EXPECT_GT(counts[i][j], 0) << name;
      }
  }
}

// What a fuzzer without sinks would be: its cases pass whatever the kernel makes of them.
TEST(Coverage, NamesErrorsThatNoCaseWouldHaveShown) {
  Coverage coverage(MLACHECK_SPARSE_ATTENTION);
  for (std::uint64_t number = 0; number < 300; ++number) {
    auto r = std::get<SparseAttentionRecipe>(draw_recipe(MLACHECK_SPARSE_ATTENTION, 1, number));
    r.sink = SinkPattern::none;
    coverage.count(r, true);
  }
  EXPECT_THAT(coverage.never_visible(), ElementsAre(ErrorClass::sink_rule));
  EXPECT_THAT(coverage.table(), HasSubstr("sink_rule:0"));
  coverage.merge(drawn(MLACHECK_SPARSE_ATTENTION, 300));
  EXPECT_THAT(coverage.never_visible(), IsEmpty());
}

// A kernel without sinks says so by refusing: nothing was missed.
TEST(Coverage, TellsARefusedFeatureFromOneThatNobodyAskedFor) {
  Coverage coverage(MLACHECK_SPARSE_ATTENTION);
  for (std::uint64_t number = 0; number < 300; ++number) {
    const Recipe recipe = draw_recipe(MLACHECK_SPARSE_ATTENTION, 1, number);
    coverage.count(recipe, std::get<SparseAttentionRecipe>(recipe).sink == SinkPattern::none);
  }
  EXPECT_THAT(coverage.never_visible(), Not(Contains(ErrorClass::sink_rule)));
  EXPECT_THAT(coverage.table(), HasSubstr("sink_rule:refused"));
  EXPECT_GT(coverage.refused(), 50);
}

TEST(Coverage, CountsClassesByCase) {
  Coverage coverage(MLACHECK_TOP_K);
  TopKRecipe r;
  r.scores = 63;
  r.topk = 64;
  coverage.count(r, true);
  EXPECT_THAT(coverage.table(), HasSubstr("top_k: 1 cases judged, 0 refused"));
  EXPECT_THAT(coverage.table(), HasSubstr("n - k       less:0 -1:1 0:0 1:0 more:0"));
  EXPECT_THAT(coverage.table(), HasSubstr("k mod 64    0:1 1:0"));
}

}  // namespace
}  // namespace mlacheck
