#include "tools/case_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <variant>

#include "cuda/plugin/kernel_worker.h"
#include "fixtures/case.h"
#include "fixtures/fills/error_class.h"
#include "reference/operators/top_k.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/check_layer.h"
#include "reference/verdict/check_sparse_attention.h"
#include "reference/verdict/top_k_rule.h"
#include "tools/kernel_bridge.h"
#include "tools/layer_kernels.h"
#include "tools/reference_library.h"

namespace mlacheck {

namespace {

// Long enough for the largest recipe on a slow machine, short enough for a night's fuzzing.
constexpr std::chrono::seconds kKernelTimeout{300};

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string repro_of(const Recipe& recipe, const KernelLibrary* library) {
  std::string command = fmt::format("mlacheck run '{}'", minimal(recipe));
  if (library != nullptr) command += fmt::format(" --kernel {}", library->path().string());
  return command;
}

// A case that could show no error proves nothing by passing.
void distrust(CheckResult& result, const Recipe& recipe) {
  if (result.status == Status::pass && shown_by(recipe).empty()) {
    result.status = Status::mistrusted;
    result.detail = "this case can show no class of error; " + result.detail;
  }
}

std::int32_t op_of(const Recipe& recipe) {
  if (std::holds_alternative<SparseAttentionRecipe>(recipe)) return MLACHECK_SPARSE_ATTENTION;
  if (std::holds_alternative<IndexScoresRecipe>(recipe)) return MLACHECK_INDEX_SCORES;
  if (std::holds_alternative<TopKRecipe>(recipe)) return MLACHECK_TOP_K;
  return 0;  // a layer is no operator of the ABI
}

// ---- What each operator's outputs are judged by ----

std::vector<Finding> judge(const SparseAttentionProblem& problem, NumericsContract contract,
                           const SparseAttentionResult& result) {
  contract.out_dtype = problem.out_dtype;
  return check_sparse_attention(problem, contract,
                                {result.out.data(), result.lse.data(), result.max_logit.data()});
}

TopKProblem problem_of(const TopKCase& c) {
  const auto ints = [&](std::size_t i) {
    return reinterpret_cast<const std::int32_t*>(c.inputs[i].bytes.data());
  };
  return {c.recipe.tokens, c.recipe.scores,
          c.recipe.topk,   reinterpret_cast<const float*>(c.inputs[0].bytes.data()),
          ints(1),         ints(2)};
}

// Scores are given, so the selection must be exact. The worst row stands for all.
std::vector<Finding> judge(const TopKCase& c, const NumericsContract& contract, bool row_relative,
                           const std::vector<std::int32_t>& selected) {
  const TopKProblem p = problem_of(c);
  Finding worst;
  worst.stage = "top_k";
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t begin = p.row_begin[row];
    const std::span<const float> scores(p.scores + row * p.columns + begin,
                                        static_cast<std::size_t>(p.row_end[row] - begin));
    const Finding finding =
        check_top_k_of_own_scores({selected.data() + row * p.k, static_cast<std::size_t>(p.k)},
                                  row_relative ? 0 : begin, scores, contract);
    if (finding.status > worst.status) {
      const std::int64_t elements = worst.elements;
      worst = finding;
      worst.stage = "top_k";
      worst.detail = fmt::format("row {}: {}", row, finding.detail);
      worst.elements = elements;
    }
    worst.elements += p.k;
  }
  return {worst};
}

// ---- The reference ----

std::vector<Finding> reference_findings(const SparseAttentionRecipe& recipe) {
  const SparseAttentionCase c(recipe);
  return judge(c.problem, reference_contract(), sparse_attention(c.problem));
}

std::vector<Finding> reference_findings(const IndexScoresRecipe& recipe) {
  const IndexScoresCase c(recipe);
  NumericsContract contract = reference_contract();
  if (recipe.reduction == HeadReduction::sequential)
    contract.index_heads.order = SumOrder::sequential;
  return {
      check_index_scores(c.problem, contract, index_scores(c.problem, recipe.reduction).data())};
}

std::vector<Finding> reference_findings(const TopKRecipe& recipe) {
  const TopKCase c(recipe);
  const TopKProblem p = problem_of(c);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(p.rows * p.k));
  for (std::int64_t row = 0; row < p.rows; ++row)
    top_k(p.scores + row * p.columns, p.row_begin[row], p.row_end[row], p.k,
          selected.data() + row * p.k);
  return judge(c, reference_contract(), false, selected);
}

std::vector<Finding> reference_findings(const LayerRecipe& recipe) {
  const LayerCase c(recipe);
  return check_layer(c.sizes, c.numerics, c.weights, c.input,
                     attention_layer(c.sizes, c.numerics, c.weights, c.input));
}

CheckResult to_result(std::string name, const Finding& finding, const std::string& repro) {
  return {fmt::format("{} {}", name, finding.stage), finding.status, describe(finding), repro, 0};
}

// ---- Kernels ----

// One kernel's calls on one case: makes them, tells how they ended, judges outputs that can be
// judged.
class KernelCheck {
 public:
  KernelCheck(const KernelLibrary& library, const mlacheck_kernel& kernel, std::string repro)
      : kernel_(kernel),
        contract_(contract_of(kernel)),
        target_{library.path(), kernel.name, this_program()},
        name_(fmt::format("{}:{}", library.path().filename().string(), kernel.name)),
        repro_(std::move(repro)) {}

  std::vector<CheckResult> run_recipe(const Recipe& recipe) {
    std::visit([this](const auto& r) { check(r); }, recipe);
    for (CheckResult& result : results_) distrust(result, recipe);
    return std::move(results_);
  }
  std::vector<CheckResult> run_attention(const SparseAttentionProblem& problem) {
    const auto call = run([&] { return make_call(problem); });
    if (call) add(judge(problem, contract_, attention_result(*call)));
    return std::move(results_);
  }

 private:
  void check(SparseAttentionRecipe recipe) {
    // The oracle reads records as the kernel says that it does.
    static constexpr kv_record_656::Reader kReaders[] = {kv_record_656::Reader::fp32_product,
                                                         kv_record_656::Reader::bf16_scale,
                                                         kv_record_656::Reader::e8m0_scale};
    if (kernel_.conventions.record_reader != 0)
      recipe.reader = kReaders[kernel_.conventions.record_reader - 1];
    const SparseAttentionCase c(recipe);
    const auto call = run([&] { return make_call(c); });
    if (call) add(judge(c.problem, contract_, attention_result(*call)));
  }
  void check(const IndexScoresRecipe& recipe) {
    const IndexScoresCase c(recipe);
    const auto call = run([&] { return make_call(c.problem); });
    if (call) add({check_index_scores(c.problem, contract_, scores_result(*call).data())});
  }
  void check(const TopKRecipe& recipe) {
    const TopKCase c(recipe);
    const auto call = run([&] { return make_call(problem_of(c)); });
    if (call)
      add(judge(c, contract_, kernel_.conventions.row_relative != 0, selected_result(*call)));
  }
  void check(const LayerRecipe&) {}  // check_kernels runs its attention

  // Null when the call did not end well; that is then a result already.
  std::unique_ptr<KernelCall> run(const std::function<std::unique_ptr<KernelCall>()>& make) {
    start_ = Clock::now();
    std::unique_ptr<KernelCall> call = make();
    const CallOutcome outcome = run_in_worker(*call, target_, kKernelTimeout);
    using Kind = CallOutcome::Kind;
    switch (outcome.kind) {
      case Kind::done:
        break;
      case Kind::refused:
        add_result("", Status::refused, outcome.detail);
        return nullptr;
      case Kind::failed:
        add_result("", Status::fail, outcome.detail);
        return nullptr;
      case Kind::crashed:
      case Kind::timed_out:
        add_result("", Status::crashed, outcome.detail);
        return nullptr;
    }
    for (const std::string& trespass : call->trespasses())
      add_result("memory", Status::fail, trespass);
    if (contract_.run_deterministic) check_second_run(*call, make);
    return call;
  }

  void check_second_run(const KernelCall& first,
                        const std::function<std::unique_ptr<KernelCall>()>& make) {
    const std::unique_ptr<KernelCall> second = make();
    const CallOutcome outcome = run_in_worker(*second, target_, kKernelTimeout);
    if (outcome.kind != CallOutcome::Kind::done) {
      add_result("second run", Status::crashed, outcome.detail);
      return;
    }
    for (std::size_t i = 0; i < kCallTensors; ++i) {
      const auto tensor = static_cast<CallTensor>(i);
      if (!is_output(tensor)) continue;
      const std::span<const std::byte> a = first.tensor(tensor);
      const std::span<const std::byte> b = second->tensor(tensor);
      const auto [at, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
      if (at != a.end())
        add_result("second run", Status::fail,
                   fmt::format("promised the same bits, but {} differs from byte {} on",
                               tensor_name(tensor), at - a.begin()));
    }
  }

  void add(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) {
      results_.push_back(to_result(name_, finding, repro_));
      results_.back().seconds = since(start_);
    }
  }
  void add_result(const char* stage, Status status, const std::string& detail) {
    const std::string name = *stage == '\0' ? name_ : fmt::format("{} {}", name_, stage);
    results_.push_back({name, status, detail, repro_, since(start_)});
  }

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  KernelTarget target_;
  std::string name_;
  std::string repro_;
  Clock::time_point start_;
  std::vector<CheckResult> results_;
};

}  // namespace

CheckResult worst_of(std::string name, const std::vector<CheckResult>& results) {
  CheckResult worst;
  worst.name = std::move(name);
  if (results.empty()) {
    worst.status = Status::skipped;
    worst.detail = "has no kernel for this operator";
  }
  for (const CheckResult& result : results) {
    worst.seconds = std::max(worst.seconds, result.seconds);
    worst.repro = result.repro;
    if (result.status > worst.status) worst.detail.clear();
    worst.status = std::max(worst.status, result.status);
    if (result.status == worst.status)
      worst.detail += fmt::format("{}{}: {}", worst.detail.empty() ? "" : "\n           ",
                                  result.name, result.detail);
  }
  return worst;
}

std::vector<CheckResult> check_recipe(const Recipe& recipe,
                                      std::span<const KernelLibrary> libraries) {
  std::vector<CheckResult> results = {worst_of("reference", check_reference(recipe))};
  for (const KernelLibrary& library : libraries)
    results.push_back(worst_of(library.path().filename().string(), check_kernels(recipe, library)));
  return results;
}

std::vector<CheckResult> check_reference(const Recipe& recipe) {
  const Clock::time_point start = Clock::now();
  const std::vector<Finding> findings =
      std::visit([](const auto& r) { return reference_findings(r); }, recipe);
  std::vector<CheckResult> results;
  for (const Finding& finding : findings) {
    results.push_back(to_result("reference", finding, repro_of(recipe, nullptr)));
    distrust(results.back(), recipe);
  }
  if (!results.empty()) results.back().seconds = since(start);
  return results;
}

std::vector<CheckResult> check_kernels(const Recipe& recipe, const KernelLibrary& library) {
  std::vector<CheckResult> results;
  if (const auto* layer = std::get_if<LayerRecipe>(&recipe)) {
    const LayerCase c(*layer);
    return check_layer_kernels(c.sizes, c.numerics, c.input,
                               attention_layer(c.sizes, c.numerics, c.weights, c.input), library,
                               repro_of(recipe, &library));
  }
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != op_of(recipe)) continue;
    for (CheckResult& result :
         KernelCheck(library, *kernel, repro_of(recipe, &library)).run_recipe(recipe))
      results.push_back(std::move(result));
  }
  return results;
}

std::vector<CheckResult> check_attention_kernels(const SparseAttentionProblem& problem,
                                                 const KernelLibrary& library,
                                                 const std::string& repro) {
  std::vector<CheckResult> results;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_SPARSE_ATTENTION) continue;
    for (CheckResult& result : KernelCheck(library, *kernel, repro).run_attention(problem))
      results.push_back(std::move(result));
  }
  return results;
}

std::string support_of(const mlacheck_kernel& kernel, const Recipe& recipe) {
  if (kernel.op != op_of(recipe)) return "is for another operator";
  std::unique_ptr<KernelCall> call;
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    call = make_call(SparseAttentionCase(*attention));
  else if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe))
    call = make_call(IndexScoresCase(*scores).problem);
  else
    call = make_call(problem_of(TopKCase(std::get<TopKRecipe>(recipe))));
  char why[512] = "";
  if (kernel.supports(&call->problem(), why, sizeof(why)) != 0) return "supports it";
  return fmt::format("refuses: {}", why);
}

}  // namespace mlacheck
