#include <cstring>

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

  std::int32_t op() const override { return MLACHECK_INDEX_SELECT; }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_select_call(*case_, k_, timed);
  }

  CallWork work(const TimedCalls& timed) const override {
    CallWork work = work_of_scores(case_->problem, timed);
    work.other_bytes += real(timed.tokens * k_ * 4);
    return work;
  }

  std::vector<Finding> judge(const KernelCall& call, const mlacheck_kernel& kernel) const override {
    const IndexScoresProblem& p = case_->problem;
    const std::int64_t tokens = call.problem().u.index_select.scores.tokens;
    const std::vector<std::int64_t> rows =
        judged_rows(tokens * call.calls(), p.heads * p.key_count * p.dim);
    std::vector<Finding> judged;
    for (const std::int64_t t : rows) {
      const std::span<const std::byte> bytes = output_row(call, CallTensor::selected, tokens, t);
      std::vector<std::int32_t> selected(static_cast<std::size_t>(k_));
      std::memcpy(selected.data(), bytes.data(), bytes.size());
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
