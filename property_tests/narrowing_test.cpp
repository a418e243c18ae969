#include "property_tests/narrowing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "property_tests/recipe_generator.h"

namespace mlacheck {
namespace {

// As picky as FlashMLA's: heads in 64s, all of top-k, one width, no cache but its own.
bool picky(const Recipe& recipe) {
  const auto* r = std::get_if<SparseAttentionRecipe>(&recipe);
  return r != nullptr && (r->heads == 64 || r->heads == 128) && r->topk % 512 == 0 && r->topk > 0 &&
         r->qk_dim == 576 && r->q_dtype == DType::bf16 && r->kv == KvFormat::bf16 &&
         r->out == OutputType::q && r->page_size == 64 && r->row_pad == 0;
}

double share(const std::function<bool(const Recipe&)>& supports, Operator op, bool narrowed) {
  Narrowing narrowing(draw_recipe(op, 1, 0), supports);
  int supported = 0;
  constexpr int kCases = 300;
  for (std::uint64_t number = 0; number < kCases; ++number) {
    const Recipe recipe = draw_recipe(op, 1, number, narrowed ? &narrowing : nullptr);
    validate(recipe);
    supported += supports(recipe) ? 1 : 0;
  }
  return double{1} * supported / kCases;
}

TEST(Narrowing, FindsTheFewCasesThatAPickyKernelTakes) {
  EXPECT_LT(share(picky, MLACHECK_SPARSE_ATTENTION, false), 0.01);
  EXPECT_GT(share(picky, MLACHECK_SPARSE_ATTENTION, true), 0.9);
}

TEST(Narrowing, NarrowsEveryOperator) {
  const auto scores = [](const Recipe& recipe) {
    const auto* r = std::get_if<IndexScoresRecipe>(&recipe);
    return r != nullptr && r->heads == 32 && r->key_dtype == DType::e4m3 &&
           r->q_dtype == DType::e4m3 && r->page_size == 64 && r->table != BlockTable::none;
  };
  EXPECT_GT(share(scores, MLACHECK_INDEX_SCORES, true), 0.85);
  const auto selection = [](const Recipe& recipe) {
    const auto* r = std::get_if<TopKRecipe>(&recipe);
    return r != nullptr && r->topk == 2048;
  };
  EXPECT_GT(share(selection, MLACHECK_TOP_K, true), 0.9);
}

TEST(Narrowing, StillAsksForWhatTheKernelMustRefuse) {
  EXPECT_LT(share(picky, MLACHECK_SPARSE_ATTENTION, true), 0.999);
}

// A kernel that takes nothing is asked a few hundred times, and refuses the campaign too.
TEST(Narrowing, GivesUpOnAKernelThatRefusesAll) {
  int asked = 0;
  Narrowing narrowing(SparseAttentionRecipe{}, [&](const Recipe&) { return ++asked == 0; });
  EXPECT_TRUE(narrowing.allows("h=3"));
  EXPECT_LT(asked, 1000);
}

TEST(Narrowing, AsksOnce) {
  int asked = 0;
  Narrowing narrowing(SparseAttentionRecipe{}, [&](const Recipe& recipe) {
    ++asked;
    return std::get<SparseAttentionRecipe>(recipe).heads != 3;
  });
  const int before = asked;  // until a small case was found
  EXPECT_FALSE(narrowing.allows("h=3"));
  EXPECT_FALSE(narrowing.allows("h=3"));
  EXPECT_TRUE(narrowing.allows("q=f16 kv=f16"));
  EXPECT_EQ(asked, before + 2);
  EXPECT_TRUE(narrowing.allows("kv=record656 pad=8"));  // a contradiction: never drawn
}

}  // namespace
}  // namespace mlacheck
