#include "tools/bench_case.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck::detail {

namespace {

// index_select of index_scores' own recipe: what it does not write of the scores is no work of it.
class IndexSelectBench final : public BenchCase {
 public:
  explicit IndexSelectBench(std::shared_ptr<const IndexScoresCase> scores)
      : case_(std::move(scores)), k_(selected_keys(case_->problem)) {}

  std::vector<std::int32_t> ops() const override { return {MLACHECK_INDEX_SELECT}; }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_select_call(*case_, k_, timed);
  }

  CallWork work(const TimedCalls& timed) const override {
    CallWork work = work_of_scores(case_->problem, timed);
    work.other_bytes += real(timed.tokens * k_ * 4);
    return work;
  }

  std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const override {
    const mlacheck_kernel& kernel = *kernels[0];
    const IndexScoresProblem& p = case_->problem;
    const std::int64_t tokens = call.problem().u.index_select.scores.tokens;
    const std::vector<std::int64_t> rows =
        judged_rows(tokens * call.calls(), p.heads * p.key_count * p.dim);
    std::vector<Finding> judged;
    for (const std::int64_t t : rows) {
      const auto selected = values_of_row<std::int32_t>(call, CallTensor::selected, tokens, t);
      judged.push_back(
          judge_row(p, t, contract_of(kernel), kernel.conventions.row_relative != 0, selected));
    }
    return {unwritten(call, CallTensor::selected, sizeof(std::int32_t)),
            worst_row("index_select", judged, rows)};
  }

 private:
  std::shared_ptr<const IndexScoresCase> case_;
  std::int64_t k_;
};

}  // namespace

std::unique_ptr<BenchCase> index_select_bench(std::shared_ptr<const IndexScoresCase> scores) {
  return std::make_unique<IndexSelectBench>(std::move(scores));
}

}  // namespace mlacheck::detail
