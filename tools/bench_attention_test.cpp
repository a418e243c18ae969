#include "tools/bench_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "reference/operators/views.h"
#include "tools/bench_floors.h"
#include "tools/kernel_bridge.h"

namespace mlacheck {
namespace {

using testing::HasSubstr;

constexpr TimedCalls kTwoCalls{.tokens = 3, .calls = 2};

SparseAttentionRecipe small_recipe() {
  return std::get<SparseAttentionRecipe>(parse_recipe(
      "mlacheck1 op=sparse_attention t=6 h=2 k=40 n=64 q=f16 kv=f16 length=random absent=suffix"));
}

// Two calls of three rows each, whose outputs are the reference's.
struct Timed {
  Timed() {
    const SparseAttentionResult result = sparse_attention(attention.problem);
    for (std::int32_t i = 0; i < kTwoCalls.calls; ++i) {
      const std::int64_t rows = kTwoCalls.tokens * attention.problem.heads;
      const std::int64_t columns = rows * attention.problem.v_dim;
      store_row(result.out.data() + i * columns, DType::f16, columns, bytes_of(CallTensor::out, i));
      store_row(result.lse.data() + i * rows, DType::f32, rows, bytes_of(CallTensor::lse, i));
    }
  }

  // A kernel's view of its output.
  std::byte* bytes_of(CallTensor tensor, std::int32_t call_index) {
    return const_cast<std::byte*>(call->tensor(tensor, call_index).data());
  }
  // What is wrong with the outputs; empty where nothing is.
  std::string flaw() const {
    for (const Finding& finding : judge_timed(attention, *call, NumericsContract{}))
      if (finding.status != Status::pass) return to_string(finding);
    return "";
  }

  SparseAttentionCase attention{small_recipe()};
  std::unique_ptr<KernelCall> call =
      make_timed_call(attention, kTwoCalls.tokens, kTwoCalls.calls, false);
};

TEST(BenchAttention, TakesTheReferencesOutputs) { EXPECT_EQ(Timed().flaw(), ""); }

TEST(BenchAttention, SeesARowOfZerosInTheLastCall) {
  Timed timed;
  std::memset(timed.bytes_of(CallTensor::out, 1) + 2 * 2 * 512 * 2, 0, std::size_t{512} * 2);
  EXPECT_THAT(timed.flaw(), HasSubstr("row 5"));
}

TEST(BenchAttention, SeesLseInAnotherBase) {
  Timed timed;
  float lse = 0;
  std::memcpy(&lse, timed.bytes_of(CallTensor::lse, 0), sizeof lse);
  lse *= 1.4427f;
  std::memcpy(timed.bytes_of(CallTensor::lse, 0), &lse, sizeof lse);
  EXPECT_THAT(timed.flaw(), HasSubstr("sparse_attention.lse"));
}

TEST(BenchAttention, SeesASingleElementThatNobodyWrote) {
  Timed timed;
  std::memset(timed.bytes_of(CallTensor::out, 0) + 100, 0xff, 2);
  EXPECT_THAT(timed.flaw(), HasSubstr("1 of 6144 elements"));
}

TEST(BenchAttention, CountsTheWorkOfPresentEntriesAlone) {
  const SparseAttentionCase attention(small_recipe());
  std::int64_t present = 0;
  for (std::int64_t t = 0; t < 6; ++t) present += std::ssize(present_slots(attention.problem, t));
  ASSERT_LT(present, 6 * 40);
  const CallWork work = work_of(attention, kTwoCalls);
  EXPECT_EQ(work.row_bytes * 2, static_cast<double>(present * 1152));
  EXPECT_EQ(work.flops * 2, static_cast<double>(present * 2 * 2 * (576 + 512)));
  EXPECT_EQ(work.other_bytes, 3 * (2 * 576 * 2 + 40 * 4 + 2 * (512 * 2 + 4)));
}

TEST(BenchAttention, TakesTurnsOnInputsThatAreLargerThanTheCache) {
  SparseAttentionRecipe recipe = small_recipe();
  recipe.topk = 2048;
  const std::int64_t row = 2048 * 1152 + 2 * 1152, l2 = 60'000'000;
  EXPECT_EQ(timed_calls(recipe, 1, l2, false).calls, (2 * l2 + row - 1) / row);
  EXPECT_EQ(timed_calls(recipe, 4096, l2, false).calls, 1);
}

TEST(BenchFloors, AreTheLongerOfRowsAndProducts) {
  const MachineRates rates{.bytes_per_second = 4e12, .flops_per_second = 600e12};
  const Floor rows = floor_of({.row_bytes = 3e9, .other_bytes = 1e9, .flops = 1e9}, rates);
  EXPECT_DOUBLE_EQ(rows.seconds, 1e-3);
  EXPECT_STREQ(rows.bound, "rows");
  const Floor mma = floor_of({.row_bytes = 3e6, .other_bytes = 1e6, .flops = 600e9}, rates);
  EXPECT_DOUBLE_EQ(mma.seconds, 1e-3);
  EXPECT_STREQ(mma.bound, "mma");
}

}  // namespace
}  // namespace mlacheck
