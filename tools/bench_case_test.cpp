#include "tools/bench_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fixtures/case.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/top_k.h"
#include "tools/bench_floors.h"

namespace mlacheck {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr TimedCalls kTwoCalls{.tokens = 3, .calls = 2};

const char* kAttention =
    "mlacheck1 op=sparse_attention t=6 h=2 k=40 n=64 q=f16 kv=f16 length=random absent=suffix";
const char* kScores = "mlacheck1 op=index_scores t=6 h=3 n=50 q=f16 keys=f16 range=random";
const char* kSelection = "mlacheck1 op=top_k t=6 n=90 k=20 range=random";

// A kernel that declares what the reference does.
mlacheck_kernel reference_kernel() {
  mlacheck_kernel kernel = {};
  kernel.conventions.lse_base = MLACHECK_LSE_NATURAL;
  kernel.conventions.lse_empty = MLACHECK_EMPTY_MINUS_INF;
  kernel.contract.tile = 0;
  for (mlacheck_accumulation* sum :
       {&kernel.contract.qk, &kernel.contract.pv, &kernel.contract.weight_sum,
        &kernel.contract.index_dot, &kernel.contract.index_heads})
    *sum = {1, MLACHECK_SUM_LANES16, 0, 25, 1};
  kernel.contract.weight_dtype = MLACHECK_F32;
  kernel.contract.max_splits = 1;
  kernel.contract.partial_dtype = MLACHECK_F32;
  kernel.contract.score_dtype = MLACHECK_F32;
  kernel.contract.weight_scale = 1;
  kernel.contract.exp_error = 0x1p-22f;
  kernel.contract.exp_underflow = 0x1p-126f;
  kernel.contract.log_error = 0x1p-21f;
  return kernel;
}

// What is wrong with a call's outputs; empty where nothing is.
std::string flaw_of(const BenchCase& bench, const KernelCall& call) {
  const mlacheck_kernel kernel = reference_kernel();
  const mlacheck_kernel* const kernels[] = {&kernel};
  const std::vector<Finding> findings = bench.judge(call, kernels);
  EXPECT_GT(detail::judged_elements(findings), 0);
  for (const Finding& finding : findings) {
    if (finding.status != Status::pass) return to_string(finding);
    EXPECT_GT(finding.elements, 0) << finding.stage;
  }
  return "";
}

// Two calls of three rows each, whose outputs are the reference's.
struct Timed {
  Timed(const char* line, std::vector<CallTensor> outputs)
      : recipe(parse_recipe(line)),
        bench(std::move(make_bench_cases(recipe).front())),
        call(bench->make_call(kTwoCalls)) {
    const std::vector<Tensor> answer = run_reference(recipe);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      for (std::int32_t i = 0; i < kTwoCalls.calls; ++i) {
        const std::size_t half = answer[o].bytes.size() / 2;
        EXPECT_EQ(call->tensor(outputs[o], i).size(), half);
        std::memcpy(bytes_of(outputs[o], i),
                    answer[o].bytes.data() + static_cast<std::size_t>(i) * half, half);
      }
  }

  // A kernel's view of its output.
  std::byte* bytes_of(CallTensor tensor, std::int32_t call_index) {
    return const_cast<std::byte*>(call->tensor(tensor, call_index).data());
  }
  std::string flaw() const { return flaw_of(*bench, *call); }

  Recipe recipe;
  std::unique_ptr<BenchCase> bench;
  std::unique_ptr<KernelCall> call;
};
Timed attention() { return Timed(kAttention, {CallTensor::out, CallTensor::lse}); }
Timed scores() { return Timed(kScores, {CallTensor::scores_out}); }
Timed selection() { return Timed(kSelection, {CallTensor::selected}); }

TEST(BenchCase, TakesTheReferencesOutputs) {
  EXPECT_EQ(attention().flaw(), "");
  EXPECT_EQ(scores().flaw(), "");
  EXPECT_EQ(selection().flaw(), "");
}

TEST(BenchCase, SeesARowOfZerosInTheLastCall) {
  Timed timed = attention();
  std::memset(timed.bytes_of(CallTensor::out, 1) + 2 * 2 * 512 * 2, 0, std::size_t{512} * 2);
  EXPECT_THAT(timed.flaw(), HasSubstr("row 5"));
  Timed row = scores();
  std::memset(row.bytes_of(CallTensor::scores_out, 1) + 2 * 50 * 4, 0, std::size_t{50} * 4);
  EXPECT_THAT(row.flaw(), HasSubstr("row 5"));
}

// Of more rows than are judged: the row that is named is the kernel's, not the judge's.
TEST(BenchCase, NamesTheRowThatIsWrong) {
  const auto bench =
      std::move(make_bench_cases(parse_recipe("mlacheck1 op=top_k t=40 n=90 k=20")).front());
  const auto call = bench->make_call({.tokens = 20, .calls = 2});
  const Tensor answer = run_reference(parse_recipe("mlacheck1 op=top_k t=40 n=90 k=20"))[0];
  for (const std::int32_t i : {0, 1}) {
    const std::span<const std::byte> selected = call->tensor(CallTensor::selected, i);
    std::memcpy(const_cast<std::byte*>(selected.data()),
                answer.bytes.data() + static_cast<std::size_t>(i) * selected.size(),
                selected.size());
  }
  std::memset(const_cast<std::byte*>(call->tensor(CallTensor::selected, 1).data()) + 19 * 80, 0,
              80);
  EXPECT_THAT(flaw_of(*bench, *call), HasSubstr("row 39, of "));
}

TEST(BenchCase, SeesLseInAnotherBase) {
  Timed timed = attention();
  float lse = 0;
  std::memcpy(&lse, timed.bytes_of(CallTensor::lse, 0), sizeof lse);
  lse *= 1.4427f;
  std::memcpy(timed.bytes_of(CallTensor::lse, 0), &lse, sizeof lse);
  EXPECT_THAT(timed.flaw(), HasSubstr("sparse_attention.lse"));
}

TEST(BenchCase, SeesASelectedKeyThatIsNot) {
  Timed timed = selection();
  std::int32_t key = 0;
  std::memcpy(&key, timed.bytes_of(CallTensor::selected, 0), sizeof key);
  ++key;
  std::memcpy(timed.bytes_of(CallTensor::selected, 0), &key, sizeof key);
  EXPECT_THAT(timed.flaw(), HasSubstr("top_k"));
}

// The second case of a recipe of scores.
TEST(BenchCase, JudgesIndexSelectByTheScores) {
  const IndexScoresCase c(std::get<IndexScoresRecipe>(parse_recipe(kScores)));
  const auto bench = std::move(make_bench_cases(parse_recipe(kScores)).at(1));
  ASSERT_EQ(bench->ops(), std::vector<std::int32_t>{MLACHECK_INDEX_SELECT});
  const auto call = bench->make_call(kTwoCalls);
  const std::int64_t k = call->problem().u.index_select.k;
  EXPECT_EQ(k, 50 / 4);
  const auto selected = [&](std::int32_t i) {
    return const_cast<std::byte*>(call->tensor(CallTensor::selected, i).data());
  };
  const std::vector<float> scores = index_scores(c.problem);
  for (std::int64_t t = 0; t < 6; ++t) {
    std::vector<std::int32_t> row(static_cast<std::size_t>(k));
    top_k(scores.data() + t * 50, c.problem.key_begin[t], c.problem.key_end[t], k, row.data());
    std::memcpy(selected(static_cast<std::int32_t>(t / 3)) + t % 3 * k * 4, row.data(),
                row.size() * 4);
  }
  EXPECT_EQ(flaw_of(*bench, *call), "");
  std::memset(selected(1) + 2 * k * 4, 0, 8);  // row 5: key 0 twice
  EXPECT_THAT(flaw_of(*bench, *call), AllOf(HasSubstr("index_select"), HasSubstr("row 5")));
  EXPECT_EQ(bench->work(kTwoCalls).other_bytes, 3 * (3 * (128 * 2 + 4) + k * 4));
}

TEST(BenchCase, SeesASingleElementThatNobodyWrote) {
  Timed timed = attention();
  std::memset(timed.bytes_of(CallTensor::out, 0) + 100, 0xff, 2);
  EXPECT_THAT(timed.flaw(), HasSubstr("1 of 6144 elements"));
  Timed keys = selection();
  std::memset(keys.bytes_of(CallTensor::selected, 1) + 8, 0xa5, 4);
  EXPECT_THAT(keys.flaw(), HasSubstr("1 of 120 elements"));
}

TEST(BenchCase, CountsTheWorkOfPresentEntriesAlone) {
  const SparseAttentionCase c(std::get<SparseAttentionRecipe>(parse_recipe(kAttention)));
  std::int64_t present = 0;
  for (std::int64_t t = 0; t < 6; ++t) present += std::ssize(present_slots(c.problem, t));
  ASSERT_LT(present, 6 * 40);
  const CallWork work = attention().bench->work(kTwoCalls);
  EXPECT_EQ(work.read_bytes * 2, static_cast<double>(present * 1152));
  EXPECT_EQ(work.flops * 2, static_cast<double>(present * 2 * 2 * (576 + 512)));
  EXPECT_EQ(work.other_bytes, 3 * (2 * 576 * 2 + 40 * 4 + 2 * (512 * 2 + 4)));
}

// The keys that the rows of a call want, once; products for each row.
TEST(BenchCase, CountsKeysOnceForTheRowsOfACall) {
  const auto cases = make_bench_cases(
      parse_recipe("mlacheck1 op=index_scores t=6 h=3 n=50 q=f16 keys=f16 range=causal"));
  const auto& bench = cases[0];
  const CallWork work = bench->work(kTwoCalls);
  // Rows 44 ... 49 of 50 positions: keys up to 47 and 50; 45 + ... + 50 pairs.
  EXPECT_EQ(work.read_bytes * 2, (47 + 50) * 128 * 2);
  EXPECT_EQ(work.flops * 2, (45 + 46 + 47 + 48 + 49 + 50) * 3 * 128 * 2);
  EXPECT_EQ(work.other_bytes, 3 * (3 * (128 * 2 + 4) + 50 * 4));
}

TEST(BenchCase, TakesTurnsOnInputsThatAreLargerThanTheCache) {
  const Recipe large = parse_recipe("mlacheck1 op=sparse_attention h=2 n=131072");
  const std::int64_t row = 2048 * 1152 + 2 * 1152, l2 = 60'000'000;
  EXPECT_EQ(timed_calls(large, 1, l2, false).calls, (2 * l2 + row - 1) / row);
  EXPECT_FALSE(timed_calls(large, 1, l2, false).own_caches);
  EXPECT_EQ(timed_calls(large, 4096, l2, false).calls, 1);
  // Keys that all rows share: each call has its own.
  const TimedCalls keys =
      timed_calls(parse_recipe("mlacheck1 op=index_scores n=131072"), 1, l2, false);
  EXPECT_EQ(keys.calls, 4);
  EXPECT_TRUE(keys.own_caches);
}

TEST(BenchCase, RefusesWhatHasNothingToTime) {
  EXPECT_THROW(require_work(parse_recipe("mlacheck1 op=sparse_attention k=0")),
               std::invalid_argument);
  EXPECT_THROW(require_work(parse_recipe("mlacheck1 op=top_k n=0")), std::invalid_argument);
  EXPECT_THROW(require_work(parse_recipe("mlacheck1 op=top_k t=0")), std::invalid_argument);
  EXPECT_THROW(require_work(parse_recipe("mlacheck1 op=index_scores n=0")), std::invalid_argument);
  EXPECT_THROW(require_work(parse_recipe("mlacheck1 op=layer")), std::invalid_argument);
}

TEST(BenchFloors, AreTheLongerOfRowsAndProducts) {
  const MachineRates rates{.bytes_per_second = 4e12, .flops_per_second = 600e12};
  const Floor rows = floor_of({.read_bytes = 3e9, .other_bytes = 1e9, .flops = 1e9}, rates);
  EXPECT_DOUBLE_EQ(rows.seconds, 1e-3);
  EXPECT_STREQ(rows.bound, "bytes");
  const Floor mma = floor_of({.read_bytes = 3e6, .other_bytes = 1e6, .flops = 600e9}, rates);
  EXPECT_DOUBLE_EQ(mma.seconds, 1e-3);
  EXPECT_STREQ(mma.bound, "mma");
}

}  // namespace
}  // namespace mlacheck
