#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/case.h"
#include "property_tests/laws/law.h"
#include "reference/verdict/numerics_contract.h"
#include "tools/kernel_bridge.h"
#include "tools/report.h"

namespace mlacheck {

// One law put to one kernel on one recipe: makes the law's calls and collects what they said.
class LawTrial {
 public:
  LawTrial(const Law& law, const Recipe& recipe, const KernelLibrary& library,
           const mlacheck_kernel& kernel);

  const mlacheck_kernel& kernel() const { return kernel_; }
  const NumericsContract& contract() const { return contract_; }
  // The recipe with records read as the kernel says that it reads them, and a cache in one piece:
  // laws write it anew.
  SparseAttentionRecipe as_read(SparseAttentionRecipe recipe) const;

  // The finished call; null when it did not end well. `what`: how the problem was changed, empty
  // for the recipe's own. A refusal is none of the law's business.
  std::unique_ptr<KernelCall> run(std::unique_ptr<KernelCall> call, const std::string& what);
  std::unique_ptr<KernelCall> run(const SparseAttentionCase& c, const std::string& what);
  std::unique_ptr<KernelCall> run(const IndexScoresProblem& problem, const std::string& what);

  // Where the law holds by bits: the same outputs with the same bits, `first` being the unchanged
  // call's.
  void expect_bits(const KernelCall& first, const KernelCall& second, const std::string& what);
  void expect_bits(std::string_view output, std::span<const std::byte> first,
                   std::span<const std::byte> second, DType dtype, const std::string& what,
                   std::int64_t rows = 0);
  // Where it holds by an interval: the answer to `problem`.
  void expect_inside(const SparseAttentionProblem& problem, const KernelCall& call,
                     const std::string& what);
  void expect_inside(const IndexScoresProblem& problem, const KernelCall& call,
                     const std::string& what);
  void expect_inside(const TopKCase& c, const KernelCall& call, const std::string& what);
  void expect_inside(const std::vector<Finding>& findings, const std::string& what);

  // Whether any of its calls was made in a process that others had used.
  bool after_others() const { return after_others_; }
  void skip(const std::string& reason);
  std::vector<CheckResult> results() &&;

 private:
  void add(Status status, const std::string& detail);

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  KernelTarget target_;
  std::string name_;
  std::string repro_;
  std::optional<std::string> skipped_;
  std::int64_t comparisons_ = 0;
  std::int64_t calls_ = 0;
  bool after_others_ = false;
  bool hung_ = false;
  std::vector<CheckResult> results_;
};

}  // namespace mlacheck
