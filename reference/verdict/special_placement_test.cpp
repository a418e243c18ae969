#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/operators/sparse_attention.h"
#include "reference/oracle/test_problem.h"
#include "reference/verdict/check_sparse_attention.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One row of 20 keys, 16 dimensions, the first 8 of them the value.
class SpecialPlacement : public ::testing::Test {
 protected:
  SpecialPlacement()
      : test(testing::make_problem(testing::Regime::flat, {.keys = 20, .qk_dim = 16, .v_dim = 8},
                                   9)) {
    test.problem.out_dtype = DType::f32;
    contract = reference_contract(DType::f32);
  }

  float& key(std::int64_t j, std::int64_t d) {
    return test.kv[static_cast<std::size_t>(j * 16 + d)];
  }

  SparseAttentionInterval interval() {
    return sparse_attention_interval(sparse_attention_oracle(test.view(), 0), contract);
  }

  // The reference itself must be right, whatever it makes of the special values.
  void expect_reference_passes() {
    const SparseAttentionResult result = sparse_attention(test.view());
    for (const Finding& finding :
         check_sparse_attention(test.view(), contract,
                                {result.out.data(), result.lse.data(), result.max_logit.data()}))
      EXPECT_EQ(finding.status, Status::pass) << to_string(finding);
  }

  Status status(std::int64_t column, float got) {
    return judge(interval().out(0, column), DType::f32, got).status;
  }
  Status lse_status(float got) { return judge(interval().lse[0], DType::f32, got).status; }

  testing::TestProblem test;
  NumericsContract contract;
};

TEST_F(SpecialPlacement, EmptyRowIsExactByConvention) {
  test.indices.assign(20, -1);
  expect_reference_passes();
  EXPECT_EQ(status(3, 0.0f), Status::pass);
  for (const float got : {-0.0f, 1e-40f, kNan}) EXPECT_EQ(status(3, got), Status::fail);
  EXPECT_EQ(lse_status(-kInfinity), Status::pass);
  for (const float got : {kInfinity, -1e30f, 0.0f, kNan}) EXPECT_EQ(lse_status(got), Status::fail);
  contract.lse_empty = EmptyLse::plus_inf;
  EXPECT_EQ(lse_status(kInfinity), Status::pass);
  EXPECT_EQ(lse_status(-kInfinity), Status::fail);
  contract.lse_empty = EmptyLse::minus_1e30;
  EXPECT_EQ(lse_status(-1e30f), Status::pass);
  EXPECT_EQ(lse_status(-1.0001e30f), Status::fail);
}

TEST_F(SpecialPlacement, AnInfiniteScoreMakesTheRowNan) {
  test.q[2] = 1;
  key(4, 2) = kInfinity;
  expect_reference_passes();
  for (const std::int64_t column : {0, 2}) {
    EXPECT_EQ(status(column, kNan), Status::pass);
    for (const float got : {kInfinity, 0.0f}) EXPECT_EQ(status(column, got), Status::fail);
  }
}

TEST_F(SpecialPlacement, AVanishingInfiniteValueMayBeSkippedOrNot) {
  test.q[2] = -1;  // a score of -Inf: weight exactly 0
  key(4, 2) = kInfinity;
  expect_reference_passes();
  const double without = interval().expected(0, 2);
  for (const float got : {static_cast<float>(without), kNan})
    EXPECT_EQ(status(2, got), Status::pass);
  for (const float got : {kInfinity, -kInfinity}) EXPECT_EQ(status(2, got), Status::fail);
  EXPECT_EQ(status(2, static_cast<float>(without) + 1), Status::fail);
  EXPECT_EQ(status(1, kNan), Status::fail);  // its neighbours are finite
}

TEST_F(SpecialPlacement, ANanScoreMakesTheRowNan) {
  key(4, 12) = kNan;  // outside the value
  expect_reference_passes();
  EXPECT_EQ(status(0, kNan), Status::pass);
  EXPECT_EQ(status(0, 0.0f), Status::fail);
  EXPECT_EQ(lse_status(kNan), Status::pass);
  EXPECT_EQ(lse_status(1.0f), Status::fail);
  test.indices[4] = -1;  // absent: it influences nothing
  expect_reference_passes();
  EXPECT_EQ(status(0, kNan), Status::fail);
}

TEST_F(SpecialPlacement, OnlyMinusInfiniteScoresAreAnEmptyRowOrNan) {
  for (std::int64_t j = 0; j < 20; ++j) key(j, 12) = test.q[12] > 0 ? -kInfinity : kInfinity;
  expect_reference_passes();
  EXPECT_EQ(status(0, 0.0f), Status::pass);
  EXPECT_EQ(status(0, kNan), Status::pass);
  EXPECT_EQ(status(0, 0.5f), Status::fail);
}

TEST_F(SpecialPlacement, OverflowingSumsMayBeAnything) {
  test.q[2] = 0;
  key(4, 2) = 3e38f;
  expect_reference_passes();
  EXPECT_EQ(status(2, kNan), Status::fail);  // one alone does not overflow
  for (std::int64_t j = 0; j < 20; ++j) key(j, 2) = 3e38f;
  expect_reference_passes();
  EXPECT_EQ(status(2, kInfinity), Status::pass);
  EXPECT_EQ(status(1, kInfinity), Status::fail);
}

TEST_F(SpecialPlacement, ExtremeSinksAreExact) {
  test.attn_sink = {kInfinity};
  expect_reference_passes();
  EXPECT_EQ(status(0, 0.0f), Status::pass);
  EXPECT_EQ(status(0, 1e-3f), Status::fail);
  test.attn_sink = {-kInfinity};
  expect_reference_passes();
  test.attn_sink = {kNan};
  expect_reference_passes();
  EXPECT_EQ(status(0, 0.0f), Status::fail);
  test.attn_sink = {90};  // exp(90) is an Inf in fp32, its factor 8e-40
  expect_reference_passes();
}

TEST_F(SpecialPlacement, ContractMustMatchTheProblem) {
  contract.out_dtype = DType::bf16;
  const std::vector<float> out(8);
  EXPECT_THROW(check_sparse_attention(test.view(), contract, {out.data(), nullptr, nullptr}),
               std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
