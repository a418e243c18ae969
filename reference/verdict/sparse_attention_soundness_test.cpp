// Legal kernels pass: no row outside the proven bound, none outside the statistical one.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reference/operators/sparse_attention.h"
#include "reference/verdict/judge.h"

namespace mlacheck {
namespace {

using testing::EmulatedKernel;
using testing::Judge;
using testing::Kernel;
using testing::make_problem;
using testing::Regime;

constexpr Regime kRegimes[] = {Regime::flat, Regime::peaky, Regime::biased, Regime::sink_key};

struct Legal {
  const char* name;
  Kernel kernel;
  NumericsContract contract;
};

std::vector<Legal> legal_kernels() {
  std::vector<Legal> kernels;
  kernels.push_back({"sequential fp32", {}, {.exp_error = 0x1p-21}});
  kernels.push_back(
      {"mma, bf16 weights", testing::tensor_core_kernel(), testing::tensor_core_contract()});
  kernels.push_back({"mma, f16 weights",
                     {.block = 16, .tile = 64, .weight_dtype = DType::f16},
                     testing::tensor_core_contract(DType::f16)});
  Legal truncating = {"mma, truncating", testing::tensor_core_kernel(),
                      testing::tensor_core_contract()};
  truncating.kernel.truncates = true;
  truncating.contract.qk.rounding = truncating.contract.pv.rounding = Rounding::toward_zero;
  kernels.push_back(truncating);
  Legal rounded_sum = {"sum of rounded weights", testing::tensor_core_kernel(),
                       testing::tensor_core_contract()};
  rounded_sum.kernel.sums_rounded = rounded_sum.contract.sums_rounded_weights = true;
  kernels.push_back(rounded_sum);
  Legal splits = {"8 fp32 splits", testing::tensor_core_kernel(), testing::tensor_core_contract()};
  splits.kernel.splits = 8;
  splits.contract.max_splits = 8;
  kernels.push_back(splits);
  Legal narrow = splits;
  narrow.name = "8 declared bf16 splits";
  narrow.kernel.partial_dtype = narrow.contract.partial_dtype = DType::bf16;
  kernels.push_back(narrow);
  Legal wide_out = {"fp32 output", testing::tensor_core_kernel(), testing::tensor_core_contract()};
  wide_out.kernel.out_dtype = wide_out.contract.out_dtype = DType::f32;
  kernels.push_back(wide_out);
  return kernels;
}

// All legal kernels on `heads` rows of one token.
void expect_legal_kernels_pass(testing::TestProblem problem, const std::string& what) {
  Judge judge(std::move(problem), testing::tensor_core_contract());
  for (const Legal& legal : legal_kernels()) {
    judge.declare(legal.contract);
    const Judge::Statuses statuses = judge.run(legal.kernel);
    const std::string where = std::string(legal.name) + ", " + what;
    EXPECT_EQ(testing::flagged(statuses.out), 0) << where;
    EXPECT_EQ(testing::flagged(statuses.lse), 0) << where;
    EXPECT_LT(statuses.core_ratio, 1) << where;
  }
}

void expect_legal_kernels_pass(Regime regime, const testing::TestShape& shape, std::uint64_t seed) {
  expect_legal_kernels_pass(
      make_problem(regime, shape, seed),
      "regime " + std::to_string(static_cast<int>(regime)) + ", seed " + std::to_string(seed));
}

// 4 regimes x 8 kernels x 40 rows = 1,280 rows of the full width, few keys.
TEST(SparseAttentionSoundness, LegalKernelsPass) {
  for (const Regime regime : kRegimes)
    expect_legal_kernels_pass(regime, {.heads = 40, .keys = 96, .qk_dim = 144, .v_dim = 128}, 1);
}

// 4 regimes x 8 kernels x 2 rows of the real size.
TEST(SparseAttentionSoundness, LegalKernelsPassAtRealSize) {
  for (const Regime regime : kRegimes)
    expect_legal_kernels_pass(regime, {.heads = 2, .keys = 2048}, 2);
}

// With few coordinates a key's value says what its weight is: the roundings of both are not
// independent, and a statistical bound would flag these.
TEST(SparseAttentionSoundness, LegalKernelsPassOnKeysOfFewCoordinates) {
  for (const std::int64_t qk_dim : {1, 2}) {
    testing::TestProblem problem =
        make_problem(Regime::flat, {.heads = 128, .keys = 2048, .qk_dim = qk_dim, .v_dim = 1}, 4);
    problem.problem.sm_scale = 0.0625f;
    expect_legal_kernels_pass(std::move(problem), std::to_string(qk_dim) + " coordinates");
  }
  for (const std::int64_t qk_dim : {8, 16}) {
    const Judge judge(
        make_problem(Regime::flat, {.heads = 1, .keys = 2048, .qk_dim = qk_dim, .v_dim = 1}, 4),
        testing::tensor_core_contract());
    const ElementBound bound = judge.interval().out(0, 0);
    EXPECT_EQ(bound.likely < bound.core, qk_dim == 16);
  }
}

// Heads of one score a key and one value for all 16 columns: [keys] of each.
testing::TestProblem problem_of(const std::vector<float>& scores,
                                const std::vector<float>& values) {
  const std::int64_t keys = std::ssize(scores), v_dim = 16, qk_dim = 32;
  testing::TestProblem test =
      make_problem(Regime::flat, {.heads = 4, .keys = keys, .qk_dim = qk_dim, .v_dim = v_dim}, 5);
  test.problem.sm_scale = 1;
  std::fill(test.q.begin(), test.q.end(), 0.0f);
  for (std::int64_t h = 0; h < 4; ++h) test.q[static_cast<std::size_t>(h * qk_dim + v_dim)] = 1;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    float* key = test.kv.data() + j * qk_dim;
    std::fill_n(key, v_dim, values[j]);
    std::fill_n(key + v_dim, qk_dim - v_dim, 0.0f);
    key[v_dim] = scores[j];
  }
  return test;
}

// Each weight is 0.63 units in the last place of the sum: it counts as one whenever it is added to
// it, so that the sum is too large by 0.37 units a key.
TEST(SparseAttentionSoundness, LegalKernelsPassOnWeightsThatRoundAlike) {
  std::vector<float> scores(609, -16.4f), values(609, 1);
  scores[0] = 0;
  values[0] = -1;
  expect_legal_kernels_pass(problem_of(scores, values), "weights of 7.5e-8 beside 1");
}

// Keys of equal score get weights of different roundings where each part of a row has a maximum of
// its own. Their values cancel, those roundings do not.
TEST(SparseAttentionSoundness, LegalKernelsPassOnEqualKeysInSplits) {
  std::vector<float> scores(64, 0), values(64);
  for (std::size_t j = 0; j < 64; ++j) {
    values[j] = j / 8 % 2 == 0 ? 1.0f : -1.0f;
    if (j % 8 == 0) {
      scores[j] = 0.3f + 0.17f * static_cast<float>(j / 8);
      values[j] = 0;
    }
  }
  expect_legal_kernels_pass(problem_of(scores, values), "equal keys in 8 parts");
}

TEST(SparseAttentionSoundness, ReferencePassesItsContract) {
  for (const DType weights : {DType::f32, DType::bf16})
    for (const DType out : {DType::bf16, DType::f16, DType::f32})
      for (const Regime regime : kRegimes) {
        testing::TestProblem test = make_problem(
            regime, {.tokens = 2, .heads = 8, .keys = 300, .qk_dim = 144, .v_dim = 128}, 3);
        test.problem.out_dtype = out;
        test.attn_sink = {-3,
                          0,
                          1,
                          5,
                          20,
                          100,
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::infinity()};
        test.indices[5] = -1;
        test.indices[7] = test.indices[8];
        test.topk_length = {300, 17};
        const SparseAttentionResult result =
            sparse_attention(test.view(), {.weight_dtype = weights});
        for (const Finding& finding : check_sparse_attention(
                 test.view(), reference_contract(out, weights),
                 {result.out.data(), result.lse.data(), result.max_logit.data()}))
          EXPECT_EQ(finding.status, Status::pass) << to_string(finding);
      }
}

}  // namespace
}  // namespace mlacheck
