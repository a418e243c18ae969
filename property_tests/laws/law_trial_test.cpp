#include "property_tests/laws/law_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

class ExpectBits : public ::testing::Test {
 protected:
  static auto says(Status status, const char* detail) {
    return ElementsAre(
        AllOf(Field(&CheckResult::status, status), Field(&CheckResult::detail, detail)));
  }
  static KernelCall call(std::span<const KernelCall::Output> outputs) {
    mlacheck_problem problem = {};
    problem.struct_size = sizeof problem;
    problem.op = MLACHECK_SPARSE_ATTENTION;
    problem.u.sparse_attention.tokens = 2;
    problem.u.sparse_attention.out_dtype = MLACHECK_F32;
    return {problem, {}, outputs};
  }
  std::vector<CheckResult> results() { return std::move(trial_).results(); }

  const KernelLibrary library_ = KernelLibrary::open(MLACHECK_REFERENCE_LIBRARY);
  const Law law_ = {"same", "the same bits", nullptr, nullptr};
  LawTrial trial_{law_, SparseAttentionRecipe{}, library_, *library_.kernels().front()};
};

constexpr std::array<KernelCall::Output, 2> kBoth = {{{CallTensor::out, 32}, {CallTensor::lse, 8}}};
constexpr std::array<KernelCall::Output, 1> kOut = {{{CallTensor::out, 32}}};
constexpr std::array<KernelCall::Output, 1> kLongerOut = {{{CallTensor::out, 40}}};

TEST_F(ExpectBits, CountsWhatBothHave) {
  trial_.expect_bits(call(kBoth), call(kBoth), "again");
  EXPECT_THAT(results(), says(Status::pass, "2 comparisons"));
}

TEST_F(ExpectBits, FailsWhereOneHasNoOutput) {
  trial_.expect_bits(call(kBoth), call(kOut), "again");
  EXPECT_THAT(results(), says(Status::fail, "again: lse has 0 bytes, expected 8"));
}

TEST_F(ExpectBits, FailsWhereTheOtherHasOneMore) {
  trial_.expect_bits(call(kOut), call(kBoth), "again");
  EXPECT_THAT(results(), says(Status::fail, "again: lse has 8 bytes, expected 0"));
}

TEST_F(ExpectBits, FailsOnAnotherSize) {
  trial_.expect_bits(call(kLongerOut), call(kOut), "again");
  EXPECT_THAT(results(), says(Status::fail, "again: out has 32 bytes, expected 40"));
}

TEST_F(ExpectBits, ComparesNothingWhereNeitherHasAny) {
  trial_.expect_bits("out", {}, {}, DType::f32, "again");
  EXPECT_THAT(results(), says(Status::skipped, "nothing to compare"));
}

TEST_F(ExpectBits, FailsOnAnotherBit) {
  const std::array<float, 2> a = {1, 2}, b = {1, 3};
  trial_.expect_bits("lse", std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), DType::f32,
                     "again");
  EXPECT_EQ(results().front().status, Status::fail);
}

}  // namespace
}  // namespace mlacheck
