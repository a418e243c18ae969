#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <variant>

#include "reference/operators/map_slots.h"
#include "reference/verdict/bits.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/top_k_rule.h"
#include "tools/bench_case.h"
#include "tools/chain_case.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck {

namespace {

using detail::real;

// Every stage by its own rule, on what the stage before wrote.
class ChainBench final : public BenchCase {
 public:
  explicit ChainBench(const IndexScoresRecipe& recipe) : chain_(recipe) {}

  std::vector<std::int32_t> ops() const override {
    if (!chain_.has_slots())
      return {MLACHECK_INDEX_SCORES, MLACHECK_TOP_K, MLACHECK_SPARSE_ATTENTION};
    return {MLACHECK_INDEX_SCORES, MLACHECK_TOP_K, MLACHECK_MAP_SLOTS, MLACHECK_SPARSE_ATTENTION};
  }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_call(chain_, timed);
  }

  // What lies between the stages could stay on the chip: it is no work of the chain.
  CallWork work(const TimedCalls& timed) const override {
    const SparseAttentionProblem& p = chain_.attention.problem;
    CallWork work = detail::work_of_scores(chain_.scores.problem, timed);
    const double entries = real(timed.tokens * chain_.k);
    const auto q_bytes = static_cast<std::int64_t>(size_of(p.q.dtype));
    const auto out_bytes = static_cast<std::int64_t>(size_of(p.out_dtype));
    work.read_bytes += entries * real(detail::row_bytes(chain_.attention.recipe));
    work.other_bytes +=
        real(timed.tokens * p.heads * (p.qk_dim * q_bytes + p.v_dim * out_bytes + 4));
    work.flops += 2 * entries * real(p.heads * (p.qk_dim + p.v_dim));
    return work;
  }

  std::string refusal(StageKernels kernels) const override {
    return kernels[1]->conventions.row_relative != 0 ? "selects keys that count from their range"
                                                     : "";
  }

  std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const override {
    const IndexScoresProblem& p = chain_.scores.problem;
    const std::int64_t tokens = call.problem().u.index_scores.tokens;
    const std::size_t last = chain_.attention_stage();
    const std::vector<std::int64_t> rows =
        detail::judged_rows(tokens * call.calls(), p.heads * p.key_count * p.dim);
    std::vector<Finding> scored, selected, mapped, out, lse;
    for (const std::int64_t t : rows) {
      const auto scores = detail::values_of_row<float>(call, CallTensor::scores_out, tokens, t);
      scored.push_back(check_index_scores(row_of(p, t), contract_of(*kernels[0]), scores.data()));
      const auto keys =
          detail::values_of_row<std::int32_t>(call, CallTensor::selected, tokens, t, 1);
      selected.push_back(judge_selection(t, scores, keys, *kernels[1]));
      std::vector<std::int32_t> slots = keys;
      if (chain_.has_slots()) {
        slots = detail::values_of_row<std::int32_t>(call, CallTensor::slots, tokens, t, 2);
        mapped.push_back(judge_slots(keys, slots));
      }
      const std::vector<Finding> attention = judge_attention(call, t, slots, *kernels[last]);
      out.push_back(attention[0]);
      lse.push_back(attention[1]);
    }
    // In the order of the stages: what the first one wrong gave to the next is not that one's
    // fault.
    std::vector<Finding> findings = {worst_row("index_scores", scored, rows),
                                     worst_row("top_k", selected, rows)};
    if (chain_.has_slots()) findings.push_back(worst_row("map_slots", mapped, rows));
    findings.push_back(worst_row("sparse_attention.out", out, rows));
    findings.push_back(worst_row("sparse_attention.lse", lse, rows));
    const std::size_t element = size_of(chain_.attention.problem.out_dtype);
    findings.push_back(detail::unwritten(call, CallTensor::out, element, last));
    findings.push_back(detail::unwritten(call, CallTensor::lse, sizeof(float), last));
    return findings;
  }

 private:
  Finding judge_selection(std::int64_t t, const std::vector<float>& scores,
                          const std::vector<std::int32_t>& keys,
                          const mlacheck_kernel& kernel) const {
    const IndexScoresProblem& p = chain_.scores.problem;
    const std::int64_t begin = p.key_begin != nullptr ? p.key_begin[t] : 0;
    const std::int64_t end = p.key_end != nullptr ? p.key_end[t] : p.key_count;
    return check_top_k_of_own_scores(
        keys, begin,
        std::span(scores).subspan(static_cast<std::size_t>(begin),
                                  static_cast<std::size_t>(end - begin)),
        contract_of(kernel));
  }

  Finding judge_slots(const std::vector<std::int32_t>& keys,
                      const std::vector<std::int32_t>& slots) const {
    const IndexScoresProblem& p = chain_.scores.problem;
    std::vector<std::int32_t> expected(keys.size());
    map_slots(keys, {p.block_table, static_cast<std::size_t>(p.block_table_stride)}, p.block_size,
              expected);
    const std::array<std::int64_t, 1> shape = {chain_.k};
    return compare_bits("map_slots", expected.data(), slots.data(), DType::i32, shape);
  }

  // On the slots that it was given.
  std::vector<Finding> judge_attention(const KernelCall& call, std::int64_t t,
                                       const std::vector<std::int32_t>& slots,
                                       const mlacheck_kernel& kernel) const {
    const SparseAttentionProblem& p = chain_.attention.problem;
    const std::size_t stage = chain_.attention_stage();
    const std::int64_t tokens = call.problem().u.index_scores.tokens;
    SparseAttentionProblem problem = row_of(p, t);
    problem.indices = slots.data();
    SparseAttentionResult row;
    row.out.resize(static_cast<std::size_t>(p.heads * p.v_dim));
    load_row(detail::output_row(call, CallTensor::out, tokens, t, stage).data(), p.out_dtype,
             std::ssize(row.out), row.out.data());
    row.lse = detail::values_of_row<float>(call, CallTensor::lse, tokens, t, stage);
    return mlacheck::judge(problem, contract_of(kernel), row);
  }

  ChainCase chain_;
};

}  // namespace

std::unique_ptr<BenchCase> make_chain_bench(const Recipe& recipe) {
  const auto* scores = std::get_if<IndexScoresRecipe>(&recipe);
  if (scores == nullptr)
    throw std::invalid_argument(
        fmt::format("bench: '{}': --chain begins with op=index_scores", minimal(recipe)));
  return std::make_unique<ChainBench>(*scores);
}

}  // namespace mlacheck
