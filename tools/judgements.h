#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process_pool.h"
#include "cuda/plugin/kernel_worker.h"
#include "fixtures/case.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"
#include "tools/kernel_bridge.h"
#include "tools/report.h"

namespace mlacheck {

// What the checks of the reference and of kernels share.

// " --kernel LIBRARY", and the time that its calls have where the command gives another by itself.
std::string kernel_options_of(const KernelLibrary& library,
                              std::chrono::seconds by_itself = kKernelTimeout);

// The command that repeats a case, with a kernel library or without (null).
std::string repro_of(const Recipe& recipe, const KernelLibrary* library);

// A case that could show no error proves nothing by passing: MISTRUSTED.
void distrust(CheckResult& result, const Recipe& recipe);

// The worst of all rows stands for them. `rows`: which they are, where they are not the first ones.
Finding worst_row(const char* stage, const std::vector<Finding>& findings,
                  std::span<const std::int64_t> rows = {});

// FAIL, REFUSED or CRASHED for a call that did not end well, SKIPPED for one that was not made.
Status status_of(CallOutcome::Kind kind);

CheckResult to_result(std::string name, const Finding& finding, const std::string& repro);

// The recipe as the kernel reads it: the oracle reads records by the kernel's rule.
SparseAttentionRecipe as_read_by(const mlacheck_kernel& kernel, SparseAttentionRecipe recipe);

// The case's arrays as a problem.
TopKProblem problem_of(const TopKCase& c);

// Outputs under a contract; its out_dtype is the problem's.
std::vector<Finding> judge(const SparseAttentionProblem& problem, NumericsContract contract,
                           const SparseAttentionResult& result);

// Every row's selection [tokens, k] against the boxes in which the contract lets its scores lie.
std::vector<Finding> judge(const IndexScoresProblem& problem, const NumericsContract& contract,
                           bool row_relative, const std::vector<std::int32_t>& selected);

// Scores are given, so the selection must be exact. row_relative: indices count from a row's begin.
// Of one row by what is selected of it, or the worst of all.
Finding judge_row(const TopKCase& c, std::int64_t row, const NumericsContract& contract,
                  bool row_relative, std::span<const std::int32_t> selected);
std::vector<Finding> judge(const TopKCase& c, const NumericsContract& contract, bool row_relative,
                           const std::vector<std::int32_t>& selected);

// What is selected of a row of keys, against the boxes in which the contract lets its scores lie.
Finding judge_row(const IndexScoresProblem& problem, std::int64_t row,
                  const NumericsContract& contract, bool row_relative,
                  std::span<const std::int32_t> selected);

}  // namespace mlacheck
