#include "tools/kernel_bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_worker.h"
#include "fixtures/case.h"
#include "reference/operators/map_slots.h"
#include "reference/operators/top_k.h"

namespace mlacheck {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const mlacheck_kernel& reference(const char* name) {
  static const KernelLibrary library = KernelLibrary::open(MLACHECK_REFERENCE_LIBRARY);
  return library.kernel(name);
}

// ---- contract_of ----

// A number for every field; that none is left out is for the compiler to say.
std::map<std::string, double> fields(const NumericsContract& contract) {
  std::map<std::string, double> all;
  const auto add = [&](const std::string& name, auto value) {
    all[name] = static_cast<double>(value);
  };
  const auto add_sum = [&](const std::string& name, const Accumulation& sum) {
    const auto& [block, order, rounding, rounds_terms, alignment_bits] = sum;
    add(name + ".block", block);
    add(name + ".order", order);
    add(name + ".rounding", rounding);
    add(name + ".rounds_terms", rounds_terms);
    add(name + ".alignment_bits", alignment_bits);
  };
  const auto& [qk, pv, weight_sum, tile, exp_error, exp_underflow, log_error, weight_dtype,
               weight_scale, weights_normalised, sums_rounded_weights, max_splits, partial_dtype,
               max_headroom, flushes_subnormals, out_dtype, lse_base, lse_empty, sink_in_lse,
               duplicates, index_dot, index_heads, score_dtype, masks_scores, relu_drops_nan, ties,
               selection_order, nan_scores, run_deterministic, batch_invariant] = contract;
  add_sum("qk", qk);
  add_sum("pv", pv);
  add_sum("weight_sum", weight_sum);
  add("tile", tile);
  add("exp_error", exp_error);
  add("exp_underflow", exp_underflow);
  add("log_error", log_error);
  add("weight_dtype", weight_dtype);
  add("weight_scale", weight_scale);
  add("weights_normalised", weights_normalised);
  add("sums_rounded_weights", sums_rounded_weights);
  add("max_splits", max_splits);
  add("partial_dtype", partial_dtype);
  add("max_headroom", max_headroom);
  add("flushes_subnormals", flushes_subnormals);
  add("out_dtype", out_dtype);
  add("lse_base", lse_base);
  add("lse_empty", lse_empty);
  add("sink_in_lse", sink_in_lse);
  add("duplicates", duplicates);
  add_sum("index_dot", index_dot);
  add_sum("index_heads", index_heads);
  add("score_dtype", score_dtype);
  add("masks_scores", masks_scores);
  add("relu_drops_nan", relu_drops_nan);
  add("ties", ties);
  add("selection_order", selection_order);
  add("nan_scores", nan_scores);
  add("run_deterministic", run_deterministic);
  add("batch_invariant", batch_invariant);
  return all;
}

TEST(ContractOf, TheReferenceLibraryIsTheReferenceContract) {
  for (const char* name :
       {"sparse_attention", "index_scores", "top_k", "index_select", "map_slots"})
    EXPECT_EQ(fields(contract_of(reference(name))), fields(reference_contract())) << name;
}

std::vector<std::string> changed_by(const std::function<void(mlacheck_kernel&)>& change) {
  mlacheck_kernel kernel = reference("sparse_attention");
  const std::map<std::string, double> before = fields(contract_of(kernel));
  change(kernel);
  std::vector<std::string> names;
  for (const auto& [name, value] : fields(contract_of(kernel)))
    if (value != before.at(name)) names.push_back(name);
  return names;
}

TEST(ContractOf, EveryDeclarationReachesItsField) {
#define EXPECT_CHANGES(field, value, name)                             \
  EXPECT_THAT(changed_by([](mlacheck_kernel& k) { k.field = value; }), \
              ElementsAre(std::string(name)))
#define EXPECT_CHANGES_SUM(sum)                                               \
  EXPECT_CHANGES(contract.sum.block, 16, #sum ".block");                      \
  EXPECT_CHANGES(contract.sum.order, MLACHECK_SUM_SEQUENTIAL, #sum ".order"); \
  EXPECT_CHANGES(contract.sum.order, MLACHECK_SUM_TREE, #sum ".order");       \
  EXPECT_CHANGES(contract.sum.toward_zero, 1, #sum ".rounding");              \
  EXPECT_CHANGES(contract.sum.alignment_bits, 24, #sum ".alignment_bits");    \
  EXPECT_CHANGES(contract.sum.rounds_terms, 1 - k.contract.sum.rounds_terms, #sum ".rounds_terms")
  EXPECT_CHANGES_SUM(qk);
  EXPECT_CHANGES_SUM(pv);
  EXPECT_CHANGES_SUM(weight_sum);
  EXPECT_CHANGES_SUM(index_dot);
  EXPECT_CHANGES_SUM(index_heads);
  EXPECT_CHANGES(contract.tile, 64, "tile");
  EXPECT_CHANGES(contract.exp_error, 0x1p-20f, "exp_error");
  EXPECT_CHANGES(contract.exp_underflow, 0x1p-30f, "exp_underflow");
  EXPECT_CHANGES(contract.log_error, 0x1p-20f, "log_error");
  EXPECT_CHANGES(contract.weight_dtype, MLACHECK_E4M3, "weight_dtype");
  EXPECT_CHANGES(contract.weight_scale, 448, "weight_scale");
  EXPECT_CHANGES(contract.weights_normalised, 1, "weights_normalised");
  EXPECT_CHANGES(contract.sums_rounded, 1, "sums_rounded_weights");
  EXPECT_CHANGES(contract.max_splits, 8, "max_splits");
  EXPECT_CHANGES(contract.partial_dtype, MLACHECK_BF16, "partial_dtype");
  EXPECT_CHANGES(contract.score_dtype, MLACHECK_F16, "score_dtype");
  EXPECT_CHANGES(contract.max_headroom, 8, "max_headroom");
  EXPECT_CHANGES(contract.flushes_subnormals, 1, "flushes_subnormals");
  EXPECT_CHANGES(contract.run_deterministic, 0, "run_deterministic");
  EXPECT_CHANGES(contract.batch_invariant, 0, "batch_invariant");
  EXPECT_CHANGES(conventions.lse_base, MLACHECK_LSE_BASE2, "lse_base");
  EXPECT_CHANGES(conventions.lse_empty, MLACHECK_EMPTY_PLUS_INF, "lse_empty");
  EXPECT_CHANGES(conventions.lse_empty, MLACHECK_EMPTY_MINUS_1E30, "lse_empty");
  EXPECT_CHANGES(conventions.sink_in_lse, 1, "sink_in_lse");
  EXPECT_CHANGES(conventions.duplicates_once, 1, "duplicates");
  EXPECT_CHANGES(conventions.any_order, 1, "selection_order");
  EXPECT_CHANGES(conventions.any_tie, 1, "ties");
  EXPECT_CHANGES(conventions.nan_first, 1, "nan_scores");
  EXPECT_CHANGES(conventions.unmasked_scores, 1, "masks_scores");
  EXPECT_CHANGES(relu_drops_nan, 1, "relu_drops_nan");
#undef EXPECT_CHANGES_SUM
#undef EXPECT_CHANGES
}

// ---- From a problem through a worker and back ----

void run(const KernelCall& call, const char* kernel) {
  const CallOutcome outcome = run_in_worker(
      call, {MLACHECK_REFERENCE_LIBRARY, kernel, MLACHECK_PROGRAM}, std::chrono::seconds(60));
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
        "kv=f32 page=7 gap=1", "out=f32", "kv=record656", "kv=record656 page=16 gap=1 poison=on",
        "sink=extremes", "sink=random length=edges", "length=zero",
        "absent=scattered absent_as=extremes poison=on", "absent=all", "index=duplicates"}) {
    SCOPED_TRACE(keys);
    const SparseAttentionCase c = attention_case(keys);
    const std::unique_ptr<KernelCall> call = make_call(c);
    run(*call, "sparse_attention");
    expect_equal(attention_result(*call), sparse_attention(c.problem));
  }
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
    "keys=e4m3 page=32 table=shuffled requests=3 range=random poison=on"};

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
