#include "tools/kernel_bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "cuda/plugin/kernel_worker.h"
#include "cuda/plugin/library_description.h"
#include "fixtures/case.h"
#include "reference/operators/map_slots.h"
#include "reference/operators/top_k.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// ---- From a problem through a worker and back ----

void run(const KernelCall& call, const char* kernel) {
  static const KernelLibrary library =
      describe_in_worker(service_by(MLACHECK_PROGRAM, MLACHECK_REFERENCE_LIBRARY));
  const CallOutcome outcome = run_in_worker(call, library.target(kernel));
  ASSERT_EQ(outcome.kind, CallOutcome::Kind::done) << outcome.detail;
  EXPECT_THAT(call.trespasses(), IsEmpty());
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> words;
  for (const float x : values) words.push_back(std::bit_cast<std::uint32_t>(x));
  return words;
}

void expect_equal(const SparseAttentionResult& a, const SparseAttentionResult& b) {
  EXPECT_EQ(bits(a.out), bits(b.out));
  EXPECT_EQ(bits(a.lse), bits(b.lse));
  EXPECT_EQ(bits(a.max_logit), bits(b.max_logit));
}

SparseAttentionCase attention_case(const std::string& keys) {
  return SparseAttentionCase(std::get<SparseAttentionRecipe>(
      parse_recipe("mlacheck1 op=sparse_attention t=3 h=5 k=24 n=96 " + keys)));
}

TEST(KernelBridge, SparseAttentionGivesTheOperatorsBits) {
  for (const char* keys :
       {"", "page=32", "page=16 gap=2 poison=on", "q=f16 kv=f16 page=16", "q=f32 kv=f32 gap=0",
        "kv=f32 page=7 gap=1", "q_pad=3 poison=on", "page=16 stretch=on poison=on",
        "kv=record656 page=8 stretch=on", "out=f32", "kv=record656",
        "kv=record656 page=16 gap=1 poison=on", "sink=extremes", "sink=random length=edges",
        "length=zero", "absent=scattered absent_as=extremes poison=on", "absent=all",
        "index=duplicates"}) {
    SCOPED_TRACE(keys);
    const SparseAttentionCase c = attention_case(keys);
    const std::unique_ptr<KernelCall> call = make_call(c);
    run(*call, "sparse_attention");
    expect_equal(attention_result(*call), sparse_attention(c.problem));
  }
}

TEST(KernelBridge, ARowAloneHasItsBitsAndNoMaxLogit) {
  const SparseAttentionCase c = attention_case("length=edges");
  const std::unique_ptr<KernelCall> all = make_batch_invariant_call(c), solo = make_solo_call(c, 1);
  for (const KernelCall* call : {all.get(), solo.get()}) {
    EXPECT_EQ(call->problem().u.sparse_attention.batch_invariant, 1);
    run(*call, "sparse_attention");
  }
  EXPECT_EQ(solo->problem().u.sparse_attention.wants_max_logit, 0);
  EXPECT_THAT(solo->tensor(CallTensor::max_logit), IsEmpty());
  const SparseAttentionResult rows = attention_result(*all), row = attention_result(*solo);
  const auto row_1 = [](const std::vector<float>& of) {
    const auto width = std::ssize(of) / 3;
    return std::vector<float>(of.begin() + width, of.begin() + 2 * width);
  };
  EXPECT_EQ(bits(row.out), bits(row_1(rows.out)));
  EXPECT_EQ(bits(row.lse), bits(row_1(rows.lse)));
}

TEST(KernelBridge, TimedCallsHaveTheSlackOfTheirQueries) {
  const SparseAttentionCase c = attention_case("q_pad=3");
  const auto call = make_timed_call(c, TimedCalls{.tokens = 1, .calls = 3});
  EXPECT_EQ(call->tensor(CallTensor::q, 2).size(), 6u * 579 * 2);
}

TEST(KernelBridge, SparseAttentionMayBeEmpty) {
  for (const char* line : {"mlacheck1 op=sparse_attention t=0", "mlacheck1 op=sparse_attention k=0",
                           "mlacheck1 op=sparse_attention t=2 h=1 k=4 n=0 absent=all"}) {
    SCOPED_TRACE(line);
    const SparseAttentionCase c(std::get<SparseAttentionRecipe>(parse_recipe(line)));
    const std::unique_ptr<KernelCall> call = make_call(c);
    run(*call, "sparse_attention");
    expect_equal(attention_result(*call), sparse_attention(c.problem));
  }
}

// Rows of q and of indices further apart than they are wide; NaN and wild indices between them.
TEST(KernelBridge, SparseAttentionKeepsStrides) {
  const SparseAttentionCase c = attention_case("q=f32");
  SparseAttentionProblem p = c.problem;
  const std::int64_t head = p.qk_dim + 3, token = p.heads * head + 5, row = p.topk + 2;
  std::vector<float> q(static_cast<std::size_t>(p.tokens * token), std::nanf(""));
  std::vector<std::int32_t> indices(static_cast<std::size_t>(p.tokens * row), 1 << 30);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    for (std::int64_t h = 0; h < p.heads; ++h)
      load_row(query_address(c.problem.q, t, h), DType::f32, p.qk_dim,
               q.data() + t * token + h * head);
    std::copy_n(c.problem.indices + t * p.index_stride, p.topk, indices.data() + t * row);
  }
  p.q = {q.data(), DType::f32, token, head};
  p.indices = indices.data();
  p.index_stride = row;
  const std::unique_ptr<KernelCall> call = make_call(p);
  run(*call, "sparse_attention");
  expect_equal(attention_result(*call), sparse_attention(c.problem));
}

// What the comparisons above would not pass: another reader's rows, and a call that was not made.
TEST(KernelBridge, OtherInputsGiveOtherBits) {
  const SparseAttentionCase c = attention_case("kv=record656 reader=fp32_product");
  const std::unique_ptr<KernelCall> call = make_call(c);
  for (const float x : attention_result(*call).out) EXPECT_TRUE(std::isnan(x));
  for (const float x : attention_result(*call).lse) EXPECT_TRUE(std::isnan(x));
  run(*call, "sparse_attention");  // reads bf16_scale
  EXPECT_NE(attention_result(*call).out, sparse_attention(c.problem).out);
}

IndexScoresCase scores_case(const std::string& keys) {
  return IndexScoresCase(
      std::get<IndexScoresRecipe>(parse_recipe("mlacheck1 op=index_scores t=4 h=4 n=80 " + keys)));
}

const std::vector<std::string> kScoreKeys = {
    "",
    "q=f16 keys=f32",
    "range=random",
    "q=e4m3 keys=e4m3",
    "keys=e4m3 page=16 gap=1 poison=on range=random",
    "page=16 table=shuffled requests=2 range=causal",
    "keys=e4m3 page=32 table=shuffled requests=3 range=random poison=on",
    "q_pad=3",
    "page=16 stretch=on",
    "keys=e4m3 page=16 table=shuffled requests=2 stretch=on"};

TEST(KernelBridge, IndexScoresGivesTheOperatorsBits) {
  for (const std::string& keys : kScoreKeys) {
    SCOPED_TRACE(keys);
    const IndexScoresCase c = scores_case(keys);
    const std::unique_ptr<KernelCall> call = make_call(c.problem);
    run(*call, "index_scores");
    EXPECT_EQ(bits(scores_result(*call)), bits(index_scores(c.problem)));
  }
}

// The ABI has both ends of a range or neither.
TEST(KernelBridge, IndexScoresCompletesARangeOfOneEnd) {
  const IndexScoresCase c = scores_case("range=random");
  for (const bool has_end : {true, false}) {
    IndexScoresProblem p = c.problem;
    (has_end ? p.key_begin : p.key_end) = nullptr;
    const std::unique_ptr<KernelCall> call = make_call(p);
    EXPECT_EQ(call->problem().u.index_scores.has_key_range, 1);
    EXPECT_EQ(call->tensor(CallTensor::range_begin).size(), 4 * sizeof(std::int32_t));
    EXPECT_EQ(call->tensor(CallTensor::range_end).size(), 4 * sizeof(std::int32_t));
    run(*call, "index_scores");
    EXPECT_EQ(bits(scores_result(*call)), bits(index_scores(p)));
  }
}

TEST(KernelBridge, TopKGivesTheOperatorsIndices) {
  for (const char* keys :
       {"", "fill=specials range=edges", "fill=plateau range=random poison=on"}) {
    SCOPED_TRACE(keys);
    const TopKCase c(std::get<TopKRecipe>(
        parse_recipe(std::string("mlacheck1 op=top_k t=6 n=100 k=12 ") + keys)));
    const auto* scores = reinterpret_cast<const float*>(c.inputs[0].bytes.data());
    const auto* begin = reinterpret_cast<const std::int32_t*>(c.inputs[1].bytes.data());
    const auto* end = reinterpret_cast<const std::int32_t*>(c.inputs[2].bytes.data());
    for (const bool ranges : {true, false}) {
      const std::unique_ptr<KernelCall> call = make_call(
          TopKProblem{6, 100, 12, scores, ranges ? begin : nullptr, ranges ? end : nullptr});
      run(*call, "top_k");
      std::vector<std::int32_t> expected(6 * 12);
      for (std::int64_t row = 0; row < 6; ++row)
        top_k(scores + row * 100, ranges ? begin[row] : 0, ranges ? end[row] : 100, 12,
              expected.data() + row * 12);
      EXPECT_EQ(selected_result(*call), expected);
    }
  }
}

// ---- Operators of the ABI that no recipe asks for yet ----

// The inputs of an index_scores call under the problem of index_select.
std::unique_ptr<KernelCall> index_select_call(const KernelCall& scores, std::int64_t k,
                                              bool to_slots) {
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = MLACHECK_INDEX_SELECT;
  problem.u.index_select.scores = scores.problem().u.index_scores;
  problem.u.index_select.k = k;
  problem.u.index_select.to_slots = to_slots ? 1 : 0;
  std::vector<KernelCall::Input> inputs;
  for (std::uint32_t i = 0; i < kCallTensors; ++i) {
    const auto tensor = static_cast<CallTensor>(i);
    if (!is_output(tensor) && !scores.tensor(tensor).empty())
      inputs.push_back({tensor, scores.tensor(tensor)});
  }
  const std::int64_t selected = scores.problem().u.index_scores.tokens * k;
  const std::vector<KernelCall::Output> outputs = {
      {CallTensor::selected, static_cast<std::size_t>(selected) * sizeof(std::int32_t)}};
  return std::make_unique<KernelCall>(problem, inputs, outputs);
}

TEST(KernelBridge, IndexSelectIsScoresThenTopKThenSlots) {
  constexpr std::int64_t kSelected = 9;
  for (const std::string& keys : kScoreKeys)
    for (const bool to_slots : {false, true}) {
      SCOPED_TRACE(keys + (to_slots ? " to slots" : ""));
      const IndexScoresCase c = scores_case(keys);
      const IndexScoresProblem& p = c.problem;
      const std::unique_ptr<KernelCall> call =
          index_select_call(*make_call(p), kSelected, to_slots);
      run(*call, "index_select");

      const std::vector<float> scores = index_scores(p);
      std::vector<std::int32_t> expected;
      for (std::int64_t t = 0; t < p.tokens; ++t) {
        std::vector<std::int32_t> row(kSelected);
        top_k(scores.data() + t * p.key_count, p.key_begin != nullptr ? p.key_begin[t] : 0,
              p.key_end != nullptr ? p.key_end[t] : p.key_count, kSelected, row.data());
        if (to_slots && p.block_table != nullptr)
          map_slots(row,
                    {p.block_table + p.request[t] * p.block_table_stride,
                     static_cast<std::size_t>(p.block_table_stride)},
                    p.block_size, row);
        expected.insert(expected.end(), row.begin(), row.end());
      }
      EXPECT_EQ(selected_result(*call), expected);
    }
}

TEST(KernelBridge, MapSlotsGivesTheOperatorsSlots) {
  const std::vector<std::int32_t> positions = {0, 63, 64, 130, -1, 200, 5};
  const std::vector<std::int32_t> table = {7, 2, 4};
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = MLACHECK_MAP_SLOTS;
  problem.u.map_slots = {std::ssize(positions), std::ssize(table), 64};
  const std::vector<KernelCall::Input> inputs = {
      {CallTensor::positions, std::as_bytes(std::span(positions))},
      {CallTensor::block_table, std::as_bytes(std::span(table))}};
  const std::vector<KernelCall::Output> outputs = {
      {CallTensor::slots, positions.size() * sizeof(std::int32_t)}};
  const KernelCall call(problem, inputs, outputs);
  run(call, "map_slots");
  const std::span<const std::byte> slots = call.tensor(CallTensor::slots);
  const auto* got = reinterpret_cast<const std::int32_t*>(slots.data());
  EXPECT_THAT(std::vector<std::int32_t>(got, got + positions.size()),
              ElementsAre(448, 511, 128, 258, -1, -1, 453));
}

}  // namespace
}  // namespace mlacheck
