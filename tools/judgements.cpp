#include "tools/judgements.h"

#include <fmt/format.h>

#include <span>

#include "fixtures/fills/error_class.h"
#include "fixtures/recipe.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/check_sparse_attention.h"
#include "reference/verdict/top_k_rule.h"
#include "tools/shell_word.h"

namespace mlacheck {

std::string kernel_options_of(const KernelLibrary& library, std::chrono::seconds by_itself) {
  std::string options = " --kernel " + shell_word(library.path().string());
  if (library.call_timeout() != by_itself)
    options += fmt::format(" --timeout {}", library.call_timeout().count());
  return options;
}

std::string repro_of(const Recipe& recipe, const KernelLibrary* library) {
  return "mlacheck run " + shell_word(minimal(recipe)) +
         (library == nullptr ? "" : kernel_options_of(*library));
}

void distrust(CheckResult& result, const Recipe& recipe) {
  if (result.status == Status::pass && shown_by(recipe).empty()) {
    result.status = Status::mistrusted;
    result.detail = "this case can show no class of error" +
                    (result.detail.empty() ? "" : "; " + result.detail);
  }
}

std::vector<Finding> judge(const SparseAttentionProblem& problem, NumericsContract contract,
                           const SparseAttentionResult& result) {
  contract.out_dtype = problem.out_dtype;
  return check_sparse_attention(problem, contract,
                                {result.out.data(), result.lse.data(), result.max_logit.data()});
}

std::vector<Finding> judge(const IndexScoresProblem& problem, const NumericsContract& contract,
                           bool row_relative, const std::vector<std::int32_t>& selected) {
  std::vector<Finding> rows;
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const std::size_t k = selected.size() / static_cast<std::size_t>(problem.tokens);
    rows.push_back(judge_row(problem, t, contract, row_relative,
                             {selected.data() + static_cast<std::size_t>(t) * k, k}));
  }
  return {worst_row("index_select", rows)};
}

SparseAttentionRecipe as_read_by(const mlacheck_kernel& kernel, SparseAttentionRecipe recipe) {
  static constexpr kv_record_656::Reader kReaders[] = {kv_record_656::Reader::fp32_product,
                                                       kv_record_656::Reader::bf16_scale,
                                                       kv_record_656::Reader::e8m0_scale};
  if (recipe.kv == KvFormat::record656 && kernel.conventions.record_reader != 0)
    recipe.reader = kReaders[kernel.conventions.record_reader - 1];
  return recipe;
}

TopKProblem problem_of(const TopKCase& c) {
  const auto ints = [&](std::size_t i) {
    return reinterpret_cast<const std::int32_t*>(c.inputs[i].bytes.data());
  };
  return {c.recipe.tokens, c.recipe.scores,
          c.recipe.topk,   reinterpret_cast<const float*>(c.inputs[0].bytes.data()),
          ints(1),         ints(2)};
}

Finding worst_row(const char* stage, const std::vector<Finding>& findings,
                  std::span<const std::int64_t> rows) {
  Finding worst;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    elements += findings[i].elements;
    if (findings[i].status <= worst.status) continue;
    worst = findings[i];
    worst.detail = rows.empty() ? fmt::format("row {}: {}", i, findings[i].detail)
                                : fmt::format("row {}, of {} that were judged: {}", rows[i],
                                              rows.size(), findings[i].detail);
  }
  worst.stage = stage;
  worst.elements = elements;
  return worst;
}

Status status_of(CallOutcome::Kind kind) {
  switch (kind) {
    case CallOutcome::Kind::done:
      return Status::pass;
    case CallOutcome::Kind::refused:
      return Status::refused;
    case CallOutcome::Kind::failed:
      return Status::fail;
    case CallOutcome::Kind::not_called:
      return Status::skipped;
    case CallOutcome::Kind::crashed:
    case CallOutcome::Kind::timed_out:
      break;
  }
  return Status::crashed;
}

Finding judge_row(const TopKCase& c, std::int64_t row, const NumericsContract& contract,
                  bool row_relative, std::span<const std::int32_t> selected) {
  const TopKProblem p = problem_of(c);
  const std::int64_t begin = p.row_begin[row];
  const std::span<const float> scores(p.scores + row * p.columns + begin,
                                      static_cast<std::size_t>(p.row_end[row] - begin));
  Finding finding = check_top_k_of_own_scores(selected, row_relative ? 0 : begin, scores, contract);
  finding.elements = p.k;
  return finding;
}

std::vector<Finding> judge(const TopKCase& c, const NumericsContract& contract, bool row_relative,
                           const std::vector<std::int32_t>& selected) {
  std::vector<Finding> rows;
  for (std::int64_t row = 0; row < c.recipe.tokens; ++row)
    rows.push_back(judge_row(
        c, row, contract, row_relative,
        {selected.data() + row * c.recipe.topk, static_cast<std::size_t>(c.recipe.topk)}));
  return {worst_row("top_k", rows)};
}

Finding judge_row(const IndexScoresProblem& problem, std::int64_t row,
                  const NumericsContract& contract, bool row_relative,
                  std::span<const std::int32_t> selected) {
  const IndexScoresOracle oracle = index_scores_oracle(problem, row);
  const ScoreBoxes boxes =
      score_boxes(index_score_bounds(oracle, problem, contract), contract.score_dtype);
  Finding finding =
      check_top_k(selected, row_relative ? 0 : oracle.begin, boxes.score, boxes.radius, contract);
  finding.elements = static_cast<std::int64_t>(selected.size());
  return finding;
}

CheckResult to_result(std::string name, const Finding& finding, const std::string& repro) {
  return {fmt::format("{} {}", name, finding.stage),
          finding.status,
          describe(finding),
          repro,
          0,
          finding.elements,
          finding.ratio,
          false,
          {{finding.stage, finding.picture}}};
}

}  // namespace mlacheck
