#include <algorithm>

#include "fixtures/case.h"
#include "reference/verdict/check_index_scores.h"
#include "tools/bench_case.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck::detail {

namespace {

class IndexScoresBench final : public BenchCase {
 public:
  explicit IndexScoresBench(std::shared_ptr<const IndexScoresCase> scores)
      : case_(std::move(scores)) {}

  std::vector<std::int32_t> ops() const override { return {MLACHECK_INDEX_SCORES}; }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_call(*case_, timed);
  }

  CallWork work(const TimedCalls& timed) const override {
    CallWork work = work_of_scores(case_->problem, timed);
    work.other_bytes += real(timed.tokens * case_->problem.key_count * 4);
    return work;
  }

  std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const override {
    const mlacheck_kernel& kernel = *kernels[0];
    const IndexScoresProblem& p = case_->problem;
    const std::int64_t tokens = call.problem().u.index_scores.tokens;
    const std::vector<std::int64_t> rows =
        judged_rows(tokens * call.calls(), p.heads * p.key_count * p.dim);
    std::vector<Finding> judged;
    for (const std::int64_t t : rows) {
      const auto scores = values_of_row<float>(call, CallTensor::scores_out, tokens, t);
      judged.push_back(check_index_scores(row_of(p, t), contract_of(kernel), scores.data()));
    }
    return {unwritten(call, CallTensor::scores_out, sizeof(float)),
            worst_row("index_scores", judged, rows)};
  }

 private:
  std::shared_ptr<const IndexScoresCase> case_;
};

class TopKBench final : public BenchCase {
 public:
  explicit TopKBench(const TopKRecipe& recipe) : case_(recipe) {}

  std::vector<std::int32_t> ops() const override { return {MLACHECK_TOP_K}; }

  std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const override {
    return make_timed_call(problem_of(case_), timed);
  }

  CallWork work(const TimedCalls& timed) const override {
    const TopKProblem p = problem_of(case_);
    std::int64_t scores = 0;
    for (std::int64_t row = 0; row < timed.tokens * timed.calls; ++row)
      scores += p.row_end[row] - p.row_begin[row];
    return {real(scores * 4) / timed.calls, real(timed.tokens * p.k * 4), 0};
  }

  std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const override {
    const mlacheck_kernel& kernel = *kernels[0];
    const TopKProblem p = problem_of(case_);
    const std::int64_t tokens = call.problem().u.top_k.rows;
    const std::vector<std::int64_t> rows = judged_rows(tokens * call.calls(), p.columns * 64);
    std::vector<Finding> judged;
    for (const std::int64_t t : rows) {
      const auto selected = values_of_row<std::int32_t>(call, CallTensor::selected, tokens, t);
      judged.push_back(
          judge_row(case_, t, contract_of(kernel), kernel.conventions.row_relative != 0, selected));
    }
    return {unwritten(call, CallTensor::selected, sizeof(std::int32_t)),
            worst_row("top_k", judged, rows)};
  }

 private:
  TopKCase case_;
};

}  // namespace

// Keys are read once a call, from the first that one of a request's rows wants to the last.
CallWork work_of_scores(const IndexScoresProblem& p, const TimedCalls& timed) {
  std::int64_t pairs = 0, keys = 0;
  for (std::int32_t call = 0; call < timed.calls; ++call) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(p.requests), p.key_count);
    std::vector<std::int64_t> last(first.size(), 0);
    for (std::int64_t t = call * timed.tokens; t < (call + 1) * timed.tokens; ++t) {
      const std::int64_t begin = p.key_begin != nullptr ? p.key_begin[t] : 0;
      const std::int64_t end = p.key_end != nullptr ? p.key_end[t] : p.key_count;
      const auto request = static_cast<std::size_t>(p.request != nullptr ? p.request[t] : 0);
      pairs += std::max<std::int64_t>(end - begin, 0);
      first[request] = std::min(first[request], begin);
      last[request] = std::max(last[request], end);
    }
    for (std::size_t r = 0; r < first.size(); ++r)
      keys += std::max<std::int64_t>(last[r] - first[r], 0);
  }
  const auto key_bytes = static_cast<std::int64_t>(size_of(p.keys.dtype));
  const auto q_bytes = static_cast<std::int64_t>(size_of(p.q.dtype));
  CallWork work;
  work.read_bytes = real(keys * p.dim * key_bytes) / timed.calls;
  work.other_bytes = real(timed.tokens * p.heads * (p.dim * q_bytes + 4));
  work.flops = 2 * real(pairs) / timed.calls * real(p.heads * p.dim);
  return work;
}

std::unique_ptr<BenchCase> index_scores_bench(std::shared_ptr<const IndexScoresCase> scores) {
  return std::make_unique<IndexScoresBench>(std::move(scores));
}

std::unique_ptr<BenchCase> top_k_bench(const TopKRecipe& recipe) {
  return std::make_unique<TopKBench>(recipe);
}

}  // namespace mlacheck::detail
