#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixtures/case_tensor.h"
#include "property_tests/stages/stage.h"
#include "reference/operators/top_k.h"

// Indexers and selections as stage_test.cpp has attention: plain loops with one fault each that
// must be named.
namespace mlacheck {
namespace {

constexpr auto kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Named {
  const char* name;
  const char* stage;
  const char* as_if;
};

class IndexStage : public ::testing::TestWithParam<Named> {};

std::vector<float> scores_with(const IndexScoresCase& c, std::string_view fault) {
  const IndexScoresProblem& p = c.problem;
  std::vector<float> scores, q(static_cast<std::size_t>(p.dim)), k(q);
  for (std::int64_t t = 0; t < p.tokens; ++t)
    for (std::int64_t s = 0; s < p.key_count; ++s) {
      const bool outside = s < p.key_begin[t] || s >= p.key_end[t] + (fault == "end_after" ? 1 : 0);
      if (outside && fault != "no_range") {
        scores.push_back(kMinusInfinity);
        continue;
      }
      const std::int64_t key = fault == "next_key" ? std::min(s + 1, p.key_count - 1) : s;
      std::int64_t slot = p.block_table[key / p.block_size] * p.block_size + key % p.block_size;
      if (fault == "no_table") slot = key;
      load_row(row_address(p.keys, slot), p.keys.dtype, p.dim, k.data());
      double sum = 0;
      for (std::int64_t h = 0; h < p.heads; ++h) {
        load_row(query_address(p.q, t, h), p.q.dtype, p.dim, q.data());
        double dot = 0;
        for (std::size_t i = fault == "no_rope" ? 64 : 0; i < q.size(); ++i)
          dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
        if (fault == "absolute") dot = std::abs(dot);
        if (fault != "no_relu") dot = std::max(dot, 0.0);
        sum += dot * (fault == "no_weights" ? 1 : static_cast<double>(p.weights[t * p.heads + h]));
      }
      if (fault != "no_scale") sum *= static_cast<double>(row_scale(p.keys, slot));
      scores.push_back(static_cast<float>(sum));
    }
  return scores;
}

TEST_P(IndexStage, IsNamed) {
  const IndexScoresCase c(std::get<IndexScoresRecipe>(parse_recipe(
      "mlacheck1 op=index_scores t=3 h=4 n=70 page=16 table=shuffled range=random keys=e4m3")));
  const NumericsContract contract;
  Patience patience;
  EXPECT_TRUE(suspects(c, contract, scores_with(c, "none"), patience).empty());
  const std::vector<Suspect> found =
      suspects(c, contract, scores_with(c, GetParam().name), patience);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].as_if, GetParam().as_if);
  EXPECT_EQ(found[0].stage, GetParam().stage);
}

constexpr Named kIndexFaults[] = {
    {"no_relu", "scores", "ReLU was left out"},
    {"absolute", "scores", "ReLU was an absolute value"},
    {"no_rope", "scores", "the first 64 elements (RoPE) were left out of q . k"},
    {"no_weights", "scores", "head weights were left out"},
    {"no_scale", "scores", "keys' scales were left out"},
    {"no_range", "selection", "ranges of keys were ignored"},
    {"end_after", "selection", "key_end was one more"},
    {"no_table", "layout", "the block table was ignored"},
    {"next_key", "layout", "every key was the one after it"},
};
INSTANTIATE_TEST_SUITE_P(Stage, IndexStage, ::testing::ValuesIn(kIndexFaults),
                         [](const auto& test) { return std::string(test.param.name); });

class TopKStage : public ::testing::TestWithParam<Named> {};

std::vector<std::int32_t> selected_with(const TopKCase& c, std::string_view fault) {
  const float* scores = detail::data_of<float>(c.inputs[0]);
  const auto *begin = detail::data_of<std::int32_t>(c.inputs[1]),
             *end = detail::data_of<std::int32_t>(c.inputs[2]);
  const std::int64_t k = c.recipe.topk, n = c.recipe.scores;
  std::vector<std::int32_t> selected(static_cast<std::size_t>(c.recipe.tokens * k));
  for (std::int64_t t = 0; t < c.recipe.tokens; ++t) {
    std::vector<float> row(scores + t * n, scores + (t + 1) * n);
    std::int64_t first = begin[t], last = end[t];
    for (float& x : row) {
      if (fault == "least") x = -x;
      if (fault == "f16") x = round_to(DType::f16, x);
    }
    if (fault == "no_range") first = 0, last = n;
    if (fault == "tail") last -= (last - first) % 4;
    std::int32_t* out = selected.data() + t * k;
    top_k(row.data(), first, last, k, out);
    std::int32_t* stop = std::find(out, out + k, -1);
    if (fault == "relative")
      for (std::int32_t* x = out; x < stop; ++x) *x -= static_cast<std::int32_t>(first);
    if (fault == "descending") std::reverse(out, stop);
  }
  return selected;
}

TEST_P(TopKStage, IsNamed) {
  const TopKCase c(std::get<TopKRecipe>(parse_recipe(
      "mlacheck1 op=top_k t=8 n=600 k=200 range=random fill=narrow poison=on seed=3")));
  const NumericsContract contract;
  Patience patience;
  EXPECT_TRUE(suspects(c, contract, false, selected_with(c, "none"), patience).empty());
  const std::vector<Suspect> found =
      suspects(c, contract, false, selected_with(c, GetParam().name), patience);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].as_if, GetParam().as_if);
  EXPECT_EQ(found[0].stage, GetParam().stage);
}

constexpr Named kTopKFaults[] = {
    {"least", "scores", "the least were selected"},
    {"f16", "scores", "scores were rounded to f16"},
    {"no_range", "selection", "ranges were ignored"},
    {"tail", "selection", "columns past whole fours were left out"},
    {"relative", "conventions",
     "selected columns counted from range_begin, or not, other than declared"},
    {"descending", "conventions", "selected columns were not in ascending order"},
};
INSTANTIATE_TEST_SUITE_P(Stage, TopKStage, ::testing::ValuesIn(kTopKFaults),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace mlacheck
