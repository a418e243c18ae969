#include "property_tests/stages/stage.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// Multiplications that an oracle does on one core, at least; to judge a case once must not take
// longer than there is time.
constexpr double kProductsASecond = 1 << 27;

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

// Needs no variants, so that it is named where there is no time for them. Only of what is wrong.
bool are_zeros(const std::vector<float>& output) {
  return std::ranges::all_of(output, [](float x) { return x == 0; });
}
std::vector<Suspect> zeros(CallTensor output) {
  return {{"output", fmt::format("all of {} was 0", tensor_name(output)), 0}};
}

struct Ranked {
  bool loosens;
  Suspect suspect;
};

// Tries each variant on an attempt of its own, that `make` makes.
template <class Variants, class Make>
void try_all(const Variants& variants, const Make& make, Patience& patience,
             std::vector<Ranked>& ranked) {
  for (const auto& variant : variants)
    patience.spend([&] {
      auto attempt = make();
      if (!variant.change(attempt)) return;
      try {
        const std::vector<Finding> findings = judge_attempt(attempt);
        if (passes(findings))
          ranked.push_back(
              {variant.loosens,
               {std::string(variant.stage), std::string(variant.as_if), budget_of(findings)}});
      } catch (
          const std::invalid_argument&) {  // a problem that the operator refuses explains nothing
      }
    });
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
  Inquiry(const KernelLibrary& library, const mlacheck_kernel& kernel, double seconds)
      : kernel_(kernel),
        contract_(contract_of(kernel)),
        library_(library),
        call_timeout_(static_cast<std::int64_t>(std::ceil(seconds))) {}

  // How its last call ended, where that gave no answer.
  const std::string& unanswered() const { return unanswered_; }

  std::vector<Suspect> of(const SparseAttentionRecipe& recipe, Patience& patience) {
    const SparseAttentionCase c(as_read_by(kernel_, recipe));
    const auto call = run(make_call(c));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call); !found.empty()) return found;
    return suspects(c, contract_, attention_result(*call), patience);
  }
  std::vector<Suspect> of(const IndexScoresRecipe& recipe, Patience& patience) {
    if (kernel_.op != MLACHECK_INDEX_SCORES) return {};
    const IndexScoresCase c(recipe);
    const auto call = run(make_call(c.problem));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call, c.problem, contract_.masks_scores); !found.empty())
      return found;
    return suspects(c, contract_, scores_result(*call), patience);
  }
  std::vector<Suspect> of(const TopKRecipe& recipe, Patience& patience) {
    const TopKCase c(recipe);
    const auto call = run(make_call(problem_of(c)));
    if (call == nullptr) return {};
    if (auto found = unwritten(*call); !found.empty()) return found;
    return suspects(c, contract_, kernel_.conventions.row_relative != 0, selected_result(*call),
                    patience);
  }
  std::vector<Suspect> of(const LayerRecipe&, Patience&) { return {}; }

 private:
  // In a process that no other call has damaged.
  std::unique_ptr<KernelCall> run(std::unique_ptr<KernelCall> call) {
    const KernelTarget target = library_.afresh(call_timeout_).target(kernel_.name);
    const CallOutcome outcome = run_in_worker(*call, target);
    if (outcome.kind == CallOutcome::Kind::done) return call;
    unanswered_ = outcome.detail;
    return nullptr;
  }

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  const KernelLibrary& library_;
  std::chrono::seconds call_timeout_;
  std::string unanswered_;
};

double work_of_any(const Recipe& recipe) {
  return std::visit(
      []<class R>(const R& r) {
        if constexpr (std::is_same_v<R, LayerRecipe>)
          return std::numeric_limits<double>::infinity();
        else
          return work_of(r);
      },
      recipe);
}

}  // namespace

std::vector<Suspect> suspects(const SparseAttentionCase& c, const NumericsContract& contract,
                              const SparseAttentionResult& result, Patience& patience) {
  AttentionAttempt made(c, contract, result);
  const std::vector<Finding> findings = judge_attempt(made);
  if (!is_wrong(findings)) return {};
  if (is_wrong(findings[0].status) && are_zeros(result.out)) return zeros(CallTensor::out);
  std::vector<Ranked> ranked;
  const auto make = [&] { return made; };
  try_all(attention_key_variants(), make, patience, ranked);
  try_all(attention_result_variants(), make, patience, ranked);
  return by_closeness(std::move(ranked));
}

std::vector<Suspect> suspects(const IndexScoresCase& c, const NumericsContract& contract,
                              const std::vector<float>& scores, Patience& patience) {
  IndexAttempt made(c, contract, scores);
  if (!is_wrong(judge_attempt(made))) return {};
  if (are_zeros(scores)) return zeros(CallTensor::scores_out);
  std::vector<Ranked> ranked;
  try_all(
      index_variants(), [&] { return made; }, patience, ranked);
  return by_closeness(std::move(ranked));
}

std::vector<Suspect> suspects(const TopKCase& c, const NumericsContract& contract,
                              bool row_relative, const std::vector<std::int32_t>& selected,
                              Patience& patience) {
  if (!is_wrong(judge(c, contract, row_relative, selected))) return {};
  std::vector<Ranked> ranked;
  try_all(
      top_k_variants(), [&] { return TopKAttempt(c, contract, row_relative, selected); }, patience,
      ranked);
  return by_closeness(std::move(ranked));
}

std::string explain_failure(std::span<const Recipe> recipes, const KernelLibrary& library,
                            const mlacheck_kernel& kernel, double seconds) {
  Inquiry inquiry(library, kernel, seconds);
  const Patience together(seconds);
  std::vector<Suspect> all;
  std::string given_up;
  bool any = false;
  // The smallest, which is the last, first.
  for (std::size_t i = recipes.size(); i-- > 0;) {
    const Recipe& recipe = recipes[i];
    const double work = work_of_any(recipe);
    if (work > kProductsASecond * together.left()) {
      if (!any && std::isfinite(work))
        given_up = fmt::format("the case is too large to try variants of it in {:.0f} s", seconds);
      continue;
    }
    Patience patience(together.left());
    const std::vector<Suspect> found =
        std::visit([&](const auto& r) { return inquiry.of(r, patience); }, recipe);
    const bool whole = patience.tried() == patience.variants();
    if (!any) {
      all = found;
      given_up = !inquiry.unanswered().empty() ? "the kernel, asked again: " + inquiry.unanswered()
                 : whole                       ? ""
                         : fmt::format("{} of {} variants were tried in {:.0f} s", patience.tried(),
                                       patience.variants(), seconds);
    } else if (whole) {
      std::erase_if(all, [&](const Suspect& suspect) {
        return std::ranges::find(found, suspect.as_if, &Suspect::as_if) == found.end();
      });
    }
    any = true;
  }
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i)
    text +=
        fmt::format("{}as if: {}; stage: {}", i == 0 ? "" : "\nor ", all[i].as_if, all[i].stage);
  if (!given_up.empty())
    text +=
        fmt::format("{}looking for the stage was given up: {}", text.empty() ? "" : "\n", given_up);
  return text;
}

}  // namespace mlacheck
