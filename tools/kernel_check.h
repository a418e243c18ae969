#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/case.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"
#include "tools/kernel_bridge.h"
#include "tools/report.h"
#include "tools/stopwatch.h"

namespace mlacheck {

// "libmine.so:plain"
std::string name_of(const KernelLibrary& library, const mlacheck_kernel& kernel);

// The call that a kernel of `op` gets on a recipe of index_scores.
std::unique_ptr<KernelCall> index_call(std::int32_t op, const IndexScoresProblem& problem);

// One kernel's calls on one case: makes them, tells how they ended, judges outputs that can be
// judged. For one case alone.
class KernelCheck {
 public:
  KernelCheck(const KernelLibrary& library, const mlacheck_kernel& kernel, std::string repro);

  std::vector<CheckResult> run_recipe(const Recipe& recipe);
  std::vector<CheckResult> run_attention(const SparseAttentionProblem& problem);
  // Scores, or the k best keys of every row, which are then in `selected`.
  std::vector<CheckResult> run_index(const IndexScoresProblem& problem, std::int64_t k,
                                     std::vector<std::int32_t>& selected);

  // Whether any of its calls was made in a process that others had used.
  bool after_others() const { return after_others_; }

 private:
  void check(const SparseAttentionRecipe& recipe);
  void check(const IndexScoresRecipe& recipe);
  void check(const TopKRecipe& recipe);
  void check(const LayerRecipe&) {}  // check_kernels runs its attention
  void check_scores(const IndexScoresProblem& problem);
  void check_unmasked(const IndexScoresProblem& problem);
  void check_batch_invariant(const SparseAttentionCase& c);
  std::vector<std::int32_t> check_selection(const IndexScoresProblem& problem, std::int64_t k);
  void check_slots(const IndexScoresProblem& problem);

  std::unique_ptr<KernelCall> run(const std::function<std::unique_ptr<KernelCall>()>& make);
  bool ends_well(const KernelCall& call, const std::string& stage);
  void check_second_run(const KernelCall& first,
                        const std::function<std::unique_ptr<KernelCall>()>& make);
  void add(const std::vector<Finding>& findings, const std::string& stage = "");
  void add_result(const std::string& stage, Status status, const std::string& detail);

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  KernelTarget target_;
  std::string name_;
  std::string repro_;
  Stopwatch watch_;
  std::vector<CheckResult> results_;
  std::int64_t calls_ = 0;
  bool after_others_ = false;
  bool hung_ = false;
};

}  // namespace mlacheck
