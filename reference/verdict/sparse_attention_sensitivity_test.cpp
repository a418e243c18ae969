// Faulty kernels are seen, each in the regime where the derived bound can see it.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/verdict/sparse_attention_faults.h"

namespace mlacheck {
namespace {

using testing::failed;
using testing::Judge;
using testing::Kernel;
using testing::make_problem;
using testing::Regime;
using testing::Row;

constexpr testing::TestShape kRealSize{.heads = 4, .keys = 2048};

TEST(SparseAttentionSensitivity, SeesFaultsOfTheOutput) {
  testing::expect_faults_seen(kRealSize, 11, [](const testing::Fault& fault, std::int64_t seen) {
    EXPECT_EQ(seen, kRealSize.heads) << fault.name << ", regime " << static_cast<int>(fault.regime);
  });
}

class SmallCase : public ::testing::Test {
 protected:
  static constexpr testing::TestShape kShape{.heads = 8, .keys = 96, .qk_dim = 144, .v_dim = 128};

  static testing::TestProblem with_sink(float sink) {
    testing::TestProblem test = make_problem(Regime::flat, kShape, 5);
    test.attn_sink.assign(8, sink);
    return test;
  }

  std::vector<Row> clean_rows(const testing::TestProblem& given) {
    testing::TestProblem test = given;
    const testing::EmulatedKernel kernel(testing::tensor_core_kernel(), kShape.qk_dim,
                                         kShape.v_dim);
    std::vector<Row> rows;
    for (std::int64_t h = 0; h < kShape.heads; ++h)
      rows.push_back(kernel.run(test.query(0, h), test.gathered(0), test.problem.sm_scale));
    return rows;
  }
};

TEST_F(SmallCase, SeesWrongLse) {
  const Judge judge(make_problem(Regime::flat, kShape, 5), testing::tensor_core_contract());
  Kernel kernel = testing::tensor_core_kernel();
  EXPECT_EQ(failed(judge.run(kernel).lse), 0);
  kernel.lse_offset = std::log(2.0f);
  EXPECT_EQ(failed(judge.run(kernel).lse), kShape.heads);
  kernel.lse_offset = 1e-4f;
  EXPECT_EQ(failed(judge.run(kernel).lse), kShape.heads);
  kernel.lse_offset = 0;
  kernel.lse_factor = 1.44269504f;
  EXPECT_EQ(failed(judge.run(kernel).lse), kShape.heads);
  kernel.dropped_key = 3;
  kernel.lse_factor = 1;
  EXPECT_EQ(failed(judge.run(kernel).lse), kShape.heads);
}

TEST_F(SmallCase, HoldsLseToItsDeclaredBase) {
  NumericsContract contract = testing::tensor_core_contract();
  contract.lse_base = LseBase::two;
  const Judge judge(make_problem(Regime::flat, kShape, 5), contract);
  Kernel kernel = testing::tensor_core_kernel();
  EXPECT_EQ(failed(judge.run(kernel).lse), kShape.heads);
  kernel.lse_factor = 1.44269504f;
  EXPECT_EQ(failed(judge.run(kernel).lse), 0);
}

TEST_F(SmallCase, SeesTheSinkInLseUnlessDeclared) {
  const float sink = 3;
  const testing::TestProblem test = with_sink(sink);
  std::vector<Row> rows = clean_rows(test);
  for (Row& row : rows) {
    const float factor = 1 / (1 + std::exp(sink - row.lse));
    for (float& x : row.out) x = round_to(DType::bf16, x * factor);
    row.lse += std::log1p(std::exp(sink - row.lse));
  }
  NumericsContract contract = testing::tensor_core_contract();
  Judge judge(test, contract);
  EXPECT_EQ(failed(judge.judge(rows).out), 0);  // twice rounded, but far inside
  EXPECT_EQ(failed(judge.judge(rows).lse), kShape.heads);
  contract.sink_in_lse = true;
  judge.declare(contract);
  EXPECT_EQ(failed(judge.judge(rows).lse), 0);
}

TEST_F(SmallCase, SeesTheSinkForgotten) {
  const testing::TestProblem test = with_sink(3);
  const Judge judge(test, testing::tensor_core_contract());
  EXPECT_EQ(failed(judge.judge(clean_rows(test)).out), kShape.heads);
}

TEST_F(SmallCase, SeesZerosAndNan) {
  for (const Regime regime : {Regime::flat, Regime::peaky, Regime::biased, Regime::sink_key}) {
    const testing::TestProblem test = make_problem(regime, kShape, 6);
    const Judge judge(test, testing::tensor_core_contract());
    std::vector<Row> rows = clean_rows(test);
    for (Row& row : rows) row.out[77] = std::nanf("");
    EXPECT_EQ(failed(judge.judge(rows).out), kShape.heads);
    for (Row& row : rows) row.out.assign(row.out.size(), 0.0f);
    EXPECT_EQ(failed(judge.judge(rows).out), kShape.heads);
    for (Row& row : rows) row.lse = std::nanf("");
    EXPECT_EQ(failed(judge.judge(rows).lse), kShape.heads);
  }
}

}  // namespace
}  // namespace mlacheck
