#include "property_tests/stages/stage.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "cuda/plugin/kernel_worker.h"
#include "property_tests/stages/attention_attempt.h"
#include "property_tests/stages/index_attempt.h"
#include "property_tests/stages/unwritten.h"
#include "reference/verdict/check_index_scores.h"
#include "reference/verdict/check_sparse_attention.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"

namespace mlacheck {
namespace {

using namespace stages;

// Multiplications of an oracle: dozens of them are a second's work.
constexpr double kMostWork = 1 << 24;

std::vector<Finding> judge_attempt(const AttentionAttempt& a) {
  return check_sparse_attention(a.problem(), a.contract,
                                {a.result.out.data(), a.result.lse.data(),
                                 a.result.max_logit.empty() ? nullptr : a.result.max_logit.data()});
}
std::vector<Finding> judge_attempt(IndexAttempt& a) {
  return {check_index_scores(a.problem(), a.contract, a.scores.data())};
}
std::vector<Finding> judge_attempt(const TopKAttempt& a) {
  return judge(a.made, a.contract, a.row_relative, a.selected);
}

bool is_wrong(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [](const Finding& f) { return is_wrong(f.status); });
}

// A case that could show nothing under the variant is no explanation.
bool passes(const std::vector<Finding>& findings) {
  return std::ranges::all_of(findings, [](const Finding& f) { return f.status == Status::pass; });
}

double budget_of(const std::vector<Finding>& findings) {
  double budget = 0;
  for (const Finding& f : findings) budget = std::max(budget, f.ratio);
  return budget;
}

struct Ranked {
  bool loosens;
  Suspect suspect;
};

// Tries each variant on an attempt of its own.
template <class Variants, class Attempt>
void try_all(const Variants& variants, const Attempt& made, std::vector<Ranked>& ranked) {
  for (const auto& variant : variants) {
    Attempt attempt = made;
    if (!variant.change(attempt)) continue;
    try {
      const std::vector<Finding> findings = judge_attempt(attempt);
      if (passes(findings))
        ranked.push_back(
            {variant.loosens,
             {std::string(variant.stage), std::string(variant.as_if), budget_of(findings)}});
    } catch (
        const std::invalid_argument&) {  // a problem that the operator refuses explains nothing
    }
  }
}

std::vector<Suspect> by_closeness(std::vector<Ranked> ranked) {
  std::ranges::stable_sort(ranked, [](const Ranked& a, const Ranked& b) {
    if (a.loosens != b.loosens) return b.loosens;
    return !a.loosens && a.suspect.budget_used < b.suspect.budget_used;
  });
  std::vector<Suspect> result;
  for (Ranked& r : ranked) result.push_back(std::move(r.suspect));
  return result;
}

double work_of(const SparseAttentionRecipe& r) {
  return static_cast<double>(r.tokens * r.heads) * static_cast<double>(r.topk) *
             static_cast<double>(r.qk_dim + r.v_dim) +
         static_cast<double>(r.slots) * static_cast<double>(r.qk_dim);
}
double work_of(const IndexScoresRecipe& r) {
  return static_cast<double>(r.tokens * r.heads) * static_cast<double>(r.keys) *
         static_cast<double>(r.dim);
}
double work_of(const TopKRecipe& r) {
  return 16 * static_cast<double>(r.tokens) * static_cast<double>(r.scores);
}

// What the kernel gives, and who is suspected. Empty where it gives nothing.
class Inquiry {
 public:
  Inquiry(const KernelLibrary& library, const mlacheck_kernel& kernel)
      : kernel_(kernel), contract_(contract_of(kernel)), library_(library) {}

  std::vector<Suspect> of(const SparseAttentionRecipe& recipe) const {
    const SparseAttentionCase c(as_read_by(kernel_, recipe));
    const auto call = run(make_call(c));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call); !found.empty()) return found;
    return suspects(c, contract_, attention_result(*call));
  }
  std::vector<Suspect> of(const IndexScoresRecipe& recipe) const {
    if (kernel_.op != MLACHECK_INDEX_SCORES) return {};
    const IndexScoresCase c(recipe);
    const auto call = run(make_call(c.problem));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call, c.problem, contract_.masks_scores); !found.empty())
      return found;
    return suspects(c, contract_, scores_result(*call));
  }
  std::vector<Suspect> of(const TopKRecipe& recipe) const {
    const TopKCase c(recipe);
    const auto call = run(make_call(problem_of(c)));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call); !found.empty()) return found;
    return suspects(c, contract_, kernel_.conventions.row_relative != 0, selected_result(*call));
  }
  std::vector<Suspect> of(const LayerRecipe&) const { return {}; }

 private:
  // In a process that no other call has damaged.
  std::unique_ptr<KernelCall> run(std::unique_ptr<KernelCall> call) const {
    const KernelTarget target = library_.afresh().target(kernel_.name);
    if (run_in_worker(*call, target).kind != CallOutcome::Kind::done) return nullptr;
    return call;
  }

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  const KernelLibrary& library_;
};

bool is_small(const Recipe& recipe) {
  return std::visit(
      []<class R>(const R& r) {
        if constexpr (std::is_same_v<R, LayerRecipe>)
          return false;
        else
          return work_of(r) <= kMostWork;
      },
      recipe);
}

}  // namespace

std::vector<Suspect> suspects(const SparseAttentionCase& c, const NumericsContract& contract,
                              const SparseAttentionResult& result) {
  const AttentionAttempt made(c, contract, result);
  if (!is_wrong(judge_attempt(made))) return {};
  std::vector<Ranked> ranked;
  try_all(attention_key_variants(), made, ranked);
  try_all(attention_result_variants(), made, ranked);
  return by_closeness(std::move(ranked));
}

std::vector<Suspect> suspects(const IndexScoresCase& c, const NumericsContract& contract,
                              const std::vector<float>& scores) {
  IndexAttempt made(c, contract, scores);
  if (!is_wrong(judge_attempt(made))) return {};
  std::vector<Ranked> ranked;
  try_all(index_variants(), made, ranked);
  return by_closeness(std::move(ranked));
}

std::vector<Suspect> suspects(const TopKCase& c, const NumericsContract& contract,
                              bool row_relative, const std::vector<std::int32_t>& selected) {
  if (!is_wrong(judge(c, contract, row_relative, selected))) return {};
  std::vector<Ranked> ranked;
  for (const TopKVariant& variant : top_k_variants()) {
    TopKAttempt attempt(c, contract, row_relative, selected);
    if (!variant.change(attempt)) continue;
    const std::vector<Finding> findings = judge_attempt(attempt);
    if (passes(findings))
      ranked.push_back(
          {variant.loosens,
           {std::string(variant.stage), std::string(variant.as_if), budget_of(findings)}});
  }
  return by_closeness(std::move(ranked));
}

std::string explain_failure(std::span<const Recipe> recipes, const KernelLibrary& library,
                            const mlacheck_kernel& kernel) {
  const Inquiry inquiry(library, kernel);
  std::vector<Suspect> all;
  bool any = false;
  for (const Recipe& recipe : recipes) {
    if (!is_small(recipe)) continue;
    const std::vector<Suspect> found =
        std::visit([&](const auto& r) { return inquiry.of(r); }, recipe);
    if (!any)
      all = found;
    else
      std::erase_if(all, [&](const Suspect& suspect) {
        return std::ranges::find(found, suspect.as_if, &Suspect::as_if) == found.end();
      });
    any = true;
  }
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i)
    text +=
        fmt::format("{}as if: {}; stage: {}", i == 0 ? "" : "\nor ", all[i].as_if, all[i].stage);
  return text;
}

}  // namespace mlacheck
