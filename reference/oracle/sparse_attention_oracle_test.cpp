#include "reference/oracle/sparse_attention_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/oracle/slow_model.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

using testing::make_problem;
using testing::Regime;
using testing::TestProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Elements of token t that the slow model puts outside the oracle's radius.
int disagreements(const SparseAttentionOracle& oracle, const SparseAttentionProblem& problem,
                  std::int64_t t) {
  int count = 0;
  const auto outside = [&](double value, long double slow, double radius) {
    if (value == static_cast<double>(slow)) return;  // infinities
    count +=
        !(std::abs(static_cast<long double>(value) - slow) <= static_cast<long double>(radius));
  };
  for (std::int64_t h = 0; h < problem.heads; ++h) {
    const SlowAttention slow = slow_sparse_attention(problem, t, h);
    outside(oracle.lse[h], slow.lse, oracle.lse_radius[h]);
    outside(oracle.max_logit[h], slow.max_logit, oracle.max_logit_radius[h]);
    // The radius is of the mean; the sink's factor adds its own few roundings.
    for (std::int64_t c = 0; c < problem.v_dim; ++c)
      outside(oracle.mean(h, c) * oracle.sink_factor[h], slow.out[static_cast<std::size_t>(c)],
              oracle.radius(h, c) + 1e-14 * oracle.magnitude(h, c));
  }
  return count;
}

TestProblem awkward_problem(Regime regime, std::uint64_t seed) {
  TestProblem test =
      make_problem(regime, {.tokens = 3, .heads = 3, .keys = 70, .qk_dim = 40, .v_dim = 24}, seed);
  const testing::CounterRandom random{seed};
  for (std::size_t i = 0; i < test.indices.size(); ++i)
    if (random.below(i, 4) == 0)
      test.indices[i] = static_cast<std::int32_t>(random.below(i + 999, 140)) - 30;
  test.topk_length = {70, 33, 0};
  test.attn_sink = {0.5f, -std::numeric_limits<float>::infinity(), 3.0f};
  return test;
}

TEST(SparseAttentionOracle, AgreesWithTheSlowModelWithinItsRadius) {
  for (const Regime regime : {Regime::flat, Regime::peaky, Regime::biased, Regime::sink_key})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      TestProblem test = awkward_problem(regime, seed);
      for (std::int64_t t = 0; t < 3; ++t)
        EXPECT_EQ(disagreements(sparse_attention_oracle(test.view(), t), test.view(), t), 0);
    }
}

TEST(SparseAttentionOracle, RadiusIsFarBelowFp32) {
  TestProblem test = make_problem(Regime::peaky, {.heads = 2, .keys = 512}, 7);
  const SparseAttentionOracle oracle = sparse_attention_oracle(test.view(), 0);
  EXPECT_LT((oracle.radius.array() / oracle.magnitude.array()).maxCoeff(), 1e-9);
  EXPECT_LT(oracle.lse_radius.maxCoeff(), 1e-10);
}

TEST(SparseAttentionOracle, RadiusSeesOneUlpOfTheScale) {
  TestProblem test =
      make_problem(Regime::flat, {.heads = 2, .keys = 70, .qk_dim = 40, .v_dim = 24}, 3);
  const SparseAttentionOracle oracle = sparse_attention_oracle(test.view(), 0);
  test.problem.sm_scale = std::nextafter(test.problem.sm_scale, 1.0f);
  EXPECT_GT(disagreements(oracle, test.view(), 0), 24);
}

TEST(SparseAttentionOracle, EqualScoresJoinTheirSquares) {
  TestProblem test = make_problem(Regime::biased, {.keys = 8, .qk_dim = 16, .v_dim = 8}, 5);
  test.q.assign(test.q.size(), 0.0f);  // every weight 1/8
  const SparseAttentionOracle oracle = sparse_attention_oracle(test.view(), 0);
  for (std::int64_t c = 0; c < 8; ++c)
    EXPECT_NEAR(oracle.squares(0, c), std::pow(oracle.mean(0, c), 2), 1e-12);
  EXPECT_NEAR(oracle.weight_squares[0], 1, 1e-12);
  EXPECT_EQ(oracle.score_spread[0], 0);
}

TEST(SparseAttentionOracle, DistinctScoresKeepTheirSquares) {
  TestProblem test = make_problem(Regime::biased, {.keys = 8, .qk_dim = 16, .v_dim = 8}, 5);
  const SparseAttentionOracle oracle = sparse_attention_oracle(test.view(), 0);
  EXPECT_NEAR(oracle.weight_squares[0], oracle.weight.row(0).squaredNorm(), 1e-15);
}

TEST(SparseAttentionOracle, CountsADuplicateTwiceOrOnce) {
  TestProblem test = make_problem(Regime::flat, {.keys = 3, .qk_dim = 16, .v_dim = 8}, 5);
  test.indices = {0, 1, 1};
  EXPECT_EQ(sparse_attention_oracle(test.view(), 0).keys, 3);
  EXPECT_EQ(sparse_attention_oracle(test.view(), 0, Duplicates::counted_once).keys, 2);
}

TEST(SparseAttentionOracle, KeepsSpecialValuesInTheirColumn) {
  const float infinity = std::numeric_limits<float>::infinity();
  TestProblem test = make_problem(Regime::flat, {.keys = 4, .qk_dim = 16, .v_dim = 8}, 5);
  test.q[2] = 0;
  const auto kind_with = [&](float value, float query) {
    test.kv[16 + 2] = value;  // key 1, dim 2
    test.q[2] = query;
    const SparseAttentionOracle oracle = sparse_attention_oracle(test.view(), 0);
    EXPECT_TRUE(oracle.mean.allFinite());
    EXPECT_EQ(oracle.special_columns, (std::vector<std::int64_t>{2}));
    return oracle.kind[0];
  };
  EXPECT_EQ(kind_with(infinity, 0), RowKind::nan);  // 0 * Inf in its own score
  EXPECT_EQ(kind_with(infinity, 1), RowKind::nan);
  EXPECT_EQ(kind_with(infinity, -1), RowKind::finite);
  EXPECT_EQ(kind_with(std::nanf(""), 1), RowKind::nan);
  test.indices = {1, 1, 1, 1};
  EXPECT_EQ(kind_with(infinity, -1), RowKind::no_weight);
  test.indices = {-1, 4, -7, 99};
  EXPECT_EQ(sparse_attention_oracle(test.view(), 0).kind[0], RowKind::empty);
  EXPECT_EQ(sparse_attention_oracle(test.view(), 0).lse[0], -kInfinity);
}

}  // namespace
}  // namespace mlacheck
