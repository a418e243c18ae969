#include "fixtures/case.h"
#include "reference/operators/views.h"
#include "tools/bench_case.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck::detail {

namespace {

class AttentionBench final : public BenchCase {
 public:
  explicit AttentionBench(const SparseAttentionRecipe& recipe) : case_(recipe) {}

  std::vector<std::int32_t> ops() const override { return {MLACHECK_SPARSE_ATTENTION}; }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_call(case_, timed);
  }

  CallWork work(const TimedCalls& timed) const override {
    const SparseAttentionProblem& p = case_.problem;
    std::int64_t present = 0;
    for (std::int64_t t = 0; t < timed.tokens * timed.calls; ++t)
      present += std::ssize(present_slots(p, t));
    const double entries = real(present) / timed.calls;
    const auto q_bytes = static_cast<std::int64_t>(size_of(p.q.dtype));
    const auto out_bytes = static_cast<std::int64_t>(size_of(p.out_dtype));
    CallWork work;
    work.read_bytes = entries * real(row_bytes(case_.recipe));
    work.other_bytes = real(
        timed.tokens * (p.topk * 4 + p.heads * (p.qk_dim * q_bytes + p.v_dim * out_bytes + 4)));
    work.flops = 2 * entries * real(p.heads) * real(p.qk_dim + p.v_dim);
    return work;
  }

  std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const override {
    const mlacheck_kernel& kernel = *kernels[0];
    const SparseAttentionProblem& p = case_.problem;
    const std::int64_t tokens = call.problem().u.sparse_attention.tokens;
    const std::vector<std::int64_t> rows =
        judged_rows(tokens * call.calls(), p.heads * p.topk * (p.qk_dim + p.v_dim));
    std::vector<Finding> out, lse;
    for (const std::int64_t t : rows) {
      SparseAttentionResult row;
      row.out.resize(static_cast<std::size_t>(p.heads * p.v_dim));
      load_row(output_row(call, CallTensor::out, tokens, t).data(), p.out_dtype,
               std::ssize(row.out), row.out.data());
      row.lse.resize(static_cast<std::size_t>(p.heads));
      load_row(output_row(call, CallTensor::lse, tokens, t).data(), DType::f32, p.heads,
               row.lse.data());
      const std::vector<Finding> judged = mlacheck::judge(row_of(p, t), contract_of(kernel), row);
      out.push_back(judged[0]);
      lse.push_back(judged[1]);
    }
    return {unwritten(call, CallTensor::out, size_of(p.out_dtype)),
            unwritten(call, CallTensor::lse, sizeof(float)),
            worst_row("sparse_attention.out", out, rows),
            worst_row("sparse_attention.lse", lse, rows)};
  }

  // The case's own values are read as its recipe says.
  std::string refusal(StageKernels kernels) const override {
    const mlacheck_kernel& kernel = *kernels[0];
    const bool reads_otherwise =
        case_.recipe.kv == KvFormat::record656 &&
        kernel.conventions.record_reader != static_cast<std::int32_t>(case_.recipe.reader) + 1;
    return reads_otherwise ? "its record_reader is not the recipe's reader" : "";
  }

 private:
  SparseAttentionCase case_;
};

}  // namespace

std::unique_ptr<BenchCase> attention_bench(const SparseAttentionRecipe& recipe) {
  return std::make_unique<AttentionBench>(recipe);
}

}  // namespace mlacheck::detail
