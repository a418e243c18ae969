#include "property_tests/laws/law_trial.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "cuda/plugin/kernel_worker.h"
#include "reference/verdict/bits.h"
#include "reference/verdict/check_index_scores.h"
#include "tools/judgements.h"
#include "tools/kernel_contract.h"

namespace mlacheck {
namespace {

DType output_dtype(const KernelCall& call, CallTensor tensor) {
  if (tensor == CallTensor::selected || tensor == CallTensor::slots) return DType::i32;
  if (tensor != CallTensor::out) return DType::f32;
  return dtype_of(call.problem().u.sparse_attention.out_dtype);
}

// What a kernel writes, by rows where there are any.
std::vector<std::int64_t> shape_of(std::span<const std::byte> bytes, DType dtype,
                                   std::int64_t rows) {
  const auto elements = static_cast<std::int64_t>(bytes.size() / size_of(dtype));
  if (rows == 0) return {elements};
  return {rows, elements / rows};
}

std::int64_t rows_of(const mlacheck_problem& problem) {
  switch (problem.op) {
    case MLACHECK_SPARSE_ATTENTION:
      return problem.u.sparse_attention.tokens;
    case MLACHECK_TOP_K:
      return problem.u.top_k.rows;
    case MLACHECK_INDEX_SELECT:
      return problem.u.index_select.scores.tokens;
    default:
      return problem.u.index_scores.tokens;
  }
}

std::string changed(const std::string& what) { return what.empty() ? "as it is" : what; }

}  // namespace

LawTrial::LawTrial(const Law& law, const Recipe& recipe, const KernelLibrary& library,
                   const mlacheck_kernel& kernel)
    : kernel_(kernel),
      contract_(contract_of(kernel)),
      target_(library.target(kernel.name)),
      name_(fmt::format("{}:{} law {}", library.path().filename().string(), kernel.name, law.name)),
      repro_(repro_of(recipe, &library) + " --laws") {}

SparseAttentionRecipe LawTrial::as_read(SparseAttentionRecipe recipe) const {
  recipe.stretch = false;
  return as_read_by(kernel_, std::move(recipe));
}

std::unique_ptr<KernelCall> LawTrial::run(std::unique_ptr<KernelCall> call,
                                          const std::string& what) {
  if (hung_) return nullptr;  // what is left of the law would cost as much again
  const CallOutcome outcome = run_in_worker(*call, target_);
  after_others_ |= outcome.calls_before > calls_++;
  if (outcome.kind == CallOutcome::Kind::refused) {
    skip(fmt::format("{}: refused: {}", changed(what), outcome.detail));
    return nullptr;
  }
  if (outcome.kind != CallOutcome::Kind::done) {
    add(status_of(outcome.kind), fmt::format("{}: {}", changed(what), outcome.detail));
    hung_ = outcome.kind == CallOutcome::Kind::timed_out;
    results_.back().hung = hung_;
    return nullptr;
  }
  for (const std::string& trespass : call->trespasses())
    add(Status::fail, fmt::format("{}: {}", changed(what), trespass));
  return call;
}

std::unique_ptr<KernelCall> LawTrial::run(const SparseAttentionCase& c, const std::string& what) {
  return run(make_call(c), what);
}

std::unique_ptr<KernelCall> LawTrial::run(const IndexScoresProblem& problem,
                                          const std::string& what) {
  return run(kernel_.op == MLACHECK_INDEX_SELECT ? make_select_call(problem, selected_keys(problem))
                                                 : make_call(problem),
             what);
}

void LawTrial::expect_bits(const KernelCall& first, const KernelCall& second,
                           const std::string& what) {
  for (std::size_t i = 0; i < kCallTensors; ++i) {
    const auto tensor = static_cast<CallTensor>(i);
    if (is_output(tensor))
      expect_bits(tensor_name(tensor), first.tensor(tensor), second.tensor(tensor),
                  output_dtype(first, tensor), what, rows_of(first.problem()));
  }
}

void LawTrial::expect_bits(std::string_view output, std::span<const std::byte> first,
                           std::span<const std::byte> second, DType dtype, const std::string& what,
                           std::int64_t rows) {
  if (first.empty() && second.empty()) return;
  if (first.size() != second.size()) {
    add(Status::fail,
        fmt::format("{}: {} has {} bytes, expected {}", what, output, second.size(), first.size()));
    return;
  }
  ++comparisons_;
  const Finding finding = compare_bits(std::string(output), first.data(), second.data(), dtype,
                                       shape_of(first, dtype, rows));
  if (finding.status != Status::pass)
    add(Status::fail, fmt::format("{}: {} has other bits; {}", what, output, describe(finding)));
}

void LawTrial::expect_inside(const SparseAttentionProblem& problem, const KernelCall& call,
                             const std::string& what) {
  expect_inside(judge(problem, contract_, attention_result(call)), what);
}

void LawTrial::expect_inside(const IndexScoresProblem& problem, const KernelCall& call,
                             const std::string& what) {
  if (kernel_.op == MLACHECK_INDEX_SELECT)
    expect_inside(
        judge(problem, contract_, kernel_.conventions.row_relative != 0, selected_result(call)),
        what);
  else
    expect_inside({check_index_scores(problem, contract_, scores_result(call).data())}, what);
}

void LawTrial::expect_inside(const TopKCase& c, const KernelCall& call, const std::string& what) {
  expect_inside(judge(c, contract_, kernel_.conventions.row_relative != 0, selected_result(call)),
                what);
}

void LawTrial::expect_inside(const std::vector<Finding>& findings, const std::string& what) {
  for (const Finding& finding : findings) {
    ++comparisons_;
    if (is_wrong(finding.status))
      add(finding.status, fmt::format("{}: {}", what, to_string(finding)));
  }
}

void LawTrial::skip(const std::string& reason) {
  if (!skipped_) skipped_ = reason;
}

std::vector<CheckResult> LawTrial::results() && {
  if (results_.empty() && comparisons_ > 0)
    add(Status::pass, fmt::format("{} comparisons", comparisons_));
  else if (results_.empty())
    add(Status::skipped, skipped_.value_or("nothing to compare"));
  return std::move(results_);
}

void LawTrial::add(Status status, const std::string& detail) {
  results_.push_back({name_, status, detail, repro_, 0});
}

}  // namespace mlacheck
