#include "property_tests/shrink.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace mlacheck {
namespace {

using Predicate = std::function<bool(const Recipe&)>;

// Shrinks; every recipe that is asked about must be valid.
Shrunk shrink_line(const std::string& line, const Predicate& still_fails,
                   const ShrinkBudget& budget = {}) {
  return shrink(
      parse_recipe(line),
      [&](const Recipe& recipe) {
        validate(recipe);
        return still_fails(recipe);
      },
      budget);
}

void expect_minimum(const std::string& line, const Predicate& still_fails,
                    const std::string& minimum) {
  const Shrunk shrunk = shrink_line(line, still_fails);
  EXPECT_EQ(minimal(shrunk.recipe), minimum);
  EXPECT_TRUE(shrunk.reproduced);
  EXPECT_TRUE(shrunk.minimal);
  EXPECT_LE(shrunk.trials, 600);
}

auto of_attention(std::function<bool(const SparseAttentionRecipe&)> fails) {
  return [fails](const Recipe& r) { return fails(std::get<SparseAttentionRecipe>(r)); };
}
auto of_top_k(std::function<bool(const TopKRecipe&)> fails) {
  return [fails](const Recipe& r) { return fails(std::get<TopKRecipe>(r)); };
}

constexpr const char* kLarge =
    "mlacheck1 op=sparse_attention t=70 h=64 k=2048 n=20000 page=64 gap=2 pad=8 fill=peaky "
    "poison=on absent=scattered length=random sink=random scale=0.1352 q=f16 kv=f16 kv_power=-3 "
    "seed=99";

TEST(Shrink, OneEntryAndAFewHeads) {
  expect_minimum(kLarge, of_attention([](const SparseAttentionRecipe& r) {
                   return r.topk > 1234 && r.only.contains(1234) && r.heads >= 3;
                 }),
                 "mlacheck1 op=sparse_attention t=0 h=3 k=1235 n=0 d=1 v=1 fill=census only=1234");
}

TEST(Shrink, EntriesThatFailTogether) {
  expect_minimum(kLarge, of_attention([](const SparseAttentionRecipe& r) {
                   return r.topk > 1900 && r.only.contains(3) && r.only.contains(700) &&
                          r.only.contains(1900);
                 }),
                 "mlacheck1 op=sparse_attention t=0 h=1 k=1901 n=0 d=1 v=1 fill=census "
                 "only=3,700,1900");
}

TEST(Shrink, AnyTwoNeighbours) {
  const Predicate fails = of_attention([](const SparseAttentionRecipe& r) {
    for (std::int64_t j = 400; j + 1 < r.topk; ++j)
      if (r.only.contains(j) && r.only.contains(j + 1)) return true;
    return false;
  });
  const Shrunk shrunk = shrink_line(kLarge, fails);
  EXPECT_TRUE(shrunk.minimal);
  EXPECT_EQ(std::get<SparseAttentionRecipe>(shrunk.recipe).only.places(2048).size(), 2u);
}

TEST(Shrink, SizesFindTheirBoundary) {
  // Past a tile, past a page, and only in whole tiles: not every smaller size fails.
  expect_minimum(kLarge, of_attention([](const SparseAttentionRecipe& r) {
                   return r.tokens > 64 && r.page_size > 0 && r.slots > 2 * r.page_size &&
                          r.topk >= 16 && r.topk % 16 == 0 && r.only.contains(0);
                 }),
                 "mlacheck1 op=sparse_attention t=65 h=1 k=16 n=3 d=1 v=1 page=1 fill=census "
                 "only=0");
}

TEST(Shrink, FlagsAndValuesThatMatterStay) {
  expect_minimum(kLarge, of_attention([](const SparseAttentionRecipe& r) {
                   return r.q_dtype == DType::f16 && r.poison && r.sink == SinkPattern::random &&
                          r.fill != AttentionFill::census && r.kv_power == -3 && r.v_dim > 32;
                 }),
                 "mlacheck1 op=sparse_attention t=0 h=1 k=0 n=0 d=33 v=33 q=f16 fill=needle "
                 "kv_power=-3 poison=on sink=random");
}

TEST(Shrink, RecordsKeepTheirShape) {
  expect_minimum("mlacheck1 op=sparse_attention t=5 kv=record656 reader=e8m0_scale fill=sink_key",
                 of_attention([](const SparseAttentionRecipe& r) {
                   return r.kv == KvFormat::record656 && r.fill != AttentionFill::needle &&
                          r.fill != AttentionFill::census;
                 }),
                 "mlacheck1 op=sparse_attention t=0 h=1 k=0 n=0 kv=record656");
}

TEST(Shrink, ColumnsOfATopK) {
  expect_minimum("mlacheck1 op=top_k t=9 n=20000 k=512 range=random fill=radix poison=on seed=4",
                 of_top_k([](const TopKRecipe& r) {
                   return r.scores > 16390 && r.only.contains(16390) && r.topk >= 2;
                 }),
                 "mlacheck1 op=top_k t=0 n=16391 k=2 fill=constant only=16390");
}

TEST(Shrink, IndexScoresAndLayers) {
  expect_minimum(
      "mlacheck1 op=index_scores t=9 keys=e4m3 page=64 gap=1 table=shuffled requests=3 n=900",
      [](const Recipe& r) {
        const auto& scores = std::get<IndexScoresRecipe>(r);
        return scores.requests >= 2 && scores.keys > scores.page_size;
      },
      "mlacheck1 op=index_scores t=0 h=1 d=1 n=2 page=1 table=shuffled requests=2 fill=zeros");
  expect_minimum(
      "mlacheck1 op=layer model=glm52 layer=40 tokens=33 position=700 profile=vllm seed=8",
      [](const Recipe& r) { return std::get<LayerRecipe>(r).tokens > 8; },
      "mlacheck1 op=layer model=glm52:tiny tokens=9");
}

TEST(Shrink, AFailureOfAnyRecipeEndsAtTheLeast) {
  expect_minimum(
      kLarge, [](const Recipe&) { return true; },
      "mlacheck1 op=sparse_attention t=0 h=1 k=0 n=0 d=1 v=1 fill=census");
}

TEST(Shrink, WhatDoesNotFailAgainStays) {
  const Shrunk shrunk = shrink_line(kLarge, [](const Recipe&) { return false; });
  EXPECT_FALSE(shrunk.reproduced);
  EXPECT_FALSE(shrunk.minimal);
  EXPECT_EQ(shrunk.trials, 1);
  EXPECT_EQ(shrunk.recipe, parse_recipe(kLarge));
}

TEST(Shrink, SaysWhenTheBudgetEndedIt) {
  std::int64_t asked = 0;
  const Predicate fails = of_attention([&](const SparseAttentionRecipe& r) {
    ++asked;
    return r.topk > 1234 && r.only.contains(1234);
  });
  const Shrunk by_trials = shrink_line(kLarge, fails, {.trials = 40});
  EXPECT_FALSE(by_trials.minimal);
  EXPECT_EQ(by_trials.trials, 40);
  EXPECT_EQ(asked, 40);
  EXPECT_TRUE(fails(by_trials.recipe));
  const Shrunk by_seconds = shrink_line(kLarge, fails, {.seconds = 0});
  EXPECT_FALSE(by_seconds.minimal);
  EXPECT_EQ(by_seconds.recipe, parse_recipe(kLarge));
}

TEST(Shrink, BeginsNoTryThatItsSecondsAreTooFewFor) {
  const auto fails = [](const Recipe&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return true;
  };
  EXPECT_EQ(shrink_line(kLarge, fails, {.seconds = 0.05}).trials, 1);
}

TEST(Shrink, SimplifiesValuesEvenWhereTheSetOfPlacesIsLarge) {
  const Shrunk shrunk = shrink_line(
      "mlacheck1 op=top_k t=3 n=9000 k=512 fill=radix seed=4",
      of_top_k([](const TopKRecipe& r) { return r.only.places(r.scores).size() > 1024; }));
  EXPECT_FALSE(shrunk.minimal);
  EXPECT_LT(shrunk.trials, 1000);
  const auto& r = std::get<TopKRecipe>(shrunk.recipe);
  EXPECT_EQ(r.fill, ScoreFill::constant);
  EXPECT_EQ(r.seed, 1u);
}

TEST(Shrink, TakesTheSameSteps) {
  std::vector<std::string> first, second;
  for (auto* steps : {&first, &second})
    shrink_line(kLarge, of_attention([steps](const SparseAttentionRecipe& r) {
                  steps->push_back(minimal(r));
                  return r.topk > 1234 && r.only.contains(77);
                }));
  EXPECT_EQ(first, second);
}

}  // namespace
}  // namespace mlacheck
