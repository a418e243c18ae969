#include "tools/kernel_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <variant>

#include "fixtures/case.h"
#include "reference/operators/map_slots.h"
#include "reference/verdict/bits.h"
#include "reference/verdict/check_index_scores.h"
#include "tools/judgements.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_contract.h"
#include "tools/layer_kernels.h"
#include "tools/stopwatch.h"
#include "tools/used_process.h"

namespace mlacheck {

namespace {

// Whether a kernel of this operator is judged on this recipe: index_select and map_slots on index_scores' own. A
// layer's is the business of layer_kernels.h.
bool is_for(std::int32_t op, const Recipe& recipe) {
  if (std::holds_alternative<SparseAttentionRecipe>(recipe)) return op == MLACHECK_SPARSE_ATTENTION;
  if (std::holds_alternative<IndexScoresRecipe>(recipe))
    return op == MLACHECK_INDEX_SCORES || op == MLACHECK_INDEX_SELECT || op == MLACHECK_MAP_SLOTS;
  return std::holds_alternative<TopKRecipe>(recipe) && op == MLACHECK_TOP_K;
}

// The positions that map_slots is tried on: all keys, out of order, absent and past the table.
std::vector<std::int32_t> positions_of(const IndexScoresProblem& problem) {
  std::vector<std::int32_t> positions = {-1, static_cast<std::int32_t>(problem.key_count - 1)};
  for (std::int64_t s = 0; s < problem.key_count; ++s)
    positions.push_back(static_cast<std::int32_t>(s));
  positions.push_back(static_cast<std::int32_t>(problem.block_table_stride * problem.block_size));
  return positions;
}

// The call that a kernel of `op` gets on a recipe of index_scores.
std::unique_ptr<KernelCall> index_call(std::int32_t op, const IndexScoresProblem& problem) {
  if (op == MLACHECK_INDEX_SELECT) return make_select_call(problem, selected_keys(problem));
  if (op == MLACHECK_MAP_SLOTS) return make_map_slots_call(problem, positions_of(problem));
  return make_call(problem);
}

std::string joined(const std::string& name, const std::string& stage) {
  return name + (name.empty() || stage.empty() ? "" : " ") + stage;
}

// One kernel's calls on one case: makes them, tells how they ended, judges outputs that can be
// judged.
class KernelCheck {
 public:
  KernelCheck(const KernelLibrary& library, const mlacheck_kernel& kernel, std::string repro)
      : kernel_(kernel),
        contract_(contract_of(kernel)),
        target_(library.target(kernel.name)),
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
  // Scores, or the k best keys of every row, which are then in `selected`.
  std::vector<CheckResult> run_index(const IndexScoresProblem& problem, std::int64_t k,
                                     std::vector<std::int32_t>& selected) {
    if (kernel_.op == MLACHECK_INDEX_SELECT)
      selected = check_selection(problem, k);
    else
      check_scores(problem);
    return std::move(results_);
  }

  // Whether any of its calls was made in a process that others had used.
  bool after_others() const { return after_others_; }

 private:
  void check(const SparseAttentionRecipe& recipe) {
    const SparseAttentionCase c(as_read_by(kernel_, recipe));
    const auto call = run([&] { return make_call(c); });
    if (!call) return;
    add(judge(c.problem, contract_, attention_result(*call)));
    if (contract_.batch_invariant && recipe.tokens > 0) check_batch_invariant(c);
  }

  void check(const IndexScoresRecipe& recipe) {
    const IndexScoresCase c(recipe);
    if (kernel_.op == MLACHECK_INDEX_SELECT)
      check_selection(c.problem, selected_keys(c.problem));
    else if (kernel_.op == MLACHECK_MAP_SLOTS)
      check_slots(c.problem);
    else
      check_scores(c.problem);
  }

  void check_scores(const IndexScoresProblem& problem) {
    const auto call = run([&] { return make_call(problem); });
    if (!call) return;
    add({check_index_scores(problem, contract_, scores_result(*call).data())});
    if (problem.key_begin != nullptr || problem.key_end != nullptr) check_unmasked(problem);
  }

  // The mode that leaves alone what stands outside of the rows' ranges, and scores no worse inside.
  void check_unmasked(const IndexScoresProblem& problem) {
    watch_ = {};
    const std::unique_ptr<KernelCall> call = make_unmasked_call(problem);
    if (!ends_well(*call, "unmasked")) return;
    const std::vector<float> scores = scores_result(*call);
    NumericsContract inside = contract_;
    inside.masks_scores = false;
    add({check_index_scores(problem, inside, scores.data())}, "unmasked");
    constexpr auto kBefore = static_cast<std::uint32_t>(kPoison) * 0x01010101u;
    if (contract_.masks_scores)
      add({check_scores_outside(problem, scores.data(), kBefore)}, "unmasked");
  }

  // A promise: a mode in which a row has the same bits alone and among others, as right as those of any call.
  void check_batch_invariant(const SparseAttentionCase& c) {
    watch_ = {};
    const std::unique_ptr<KernelCall> all = make_batch_invariant_call(c);
    if (!ends_well(*all, "batch invariant")) return;
    add(judge(c.problem, contract_, attention_result(*all)), "batch invariant");
    const std::int64_t t = c.problem.tokens - 1;
    const std::unique_ptr<KernelCall> solo = make_solo_call(c, t);
    if (!ends_well(*solo, "batch invariant row alone")) return;
    for (const CallTensor tensor : {CallTensor::out, CallTensor::lse}) {
      const std::span<const std::byte> row = solo->tensor(tensor);
      if (!std::ranges::equal(row, all->tensor(tensor).last(row.size())))
        add_result("batch invariant row alone", Status::fail,
                   fmt::format("promised the batch's bits, but {} of row {} has others",
                               tensor_name(tensor), t));
    }
  }

  std::vector<std::int32_t> check_selection(const IndexScoresProblem& problem, std::int64_t k) {
    const auto call = run([&] { return make_select_call(problem, k); });
    if (!call) return {};
    std::vector<std::int32_t> selected = selected_result(*call);
    add(judge(problem, contract_, kernel_.conventions.row_relative != 0, selected));
    return selected;
  }

  // Exact: integers. Without a block table there is nothing to map.
  void check_slots(const IndexScoresProblem& problem) {
    if (problem.block_table == nullptr) return;
    const std::vector<std::int32_t> positions = positions_of(problem);
    const auto call = run([&] { return index_call(kernel_.op, problem); });
    if (!call) return;
    std::vector<std::int32_t> expected(positions.size());
    map_slots(positions,
              {problem.block_table, static_cast<std::size_t>(problem.block_table_stride)},
              problem.block_size, expected);
    const std::vector<std::int32_t> slots = slots_result(*call);
    const std::array<std::int64_t, 1> shape = {std::ssize(slots)};
    add({compare_bits("map_slots", expected.data(), slots.data(), DType::i32, shape)});
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
    watch_ = {};
    std::unique_ptr<KernelCall> call = make();
    if (!ends_well(*call, "")) return nullptr;
    if (contract_.run_deterministic) check_second_run(*call, make);
    return call;
  }

  // Makes the call. How it ended, if not well, and what it wrote outside its outputs are results already. A stage
  // with a name is one that the kernel promised: to refuse it is to break the promise.
  bool ends_well(const KernelCall& call, const std::string& stage) {
    const CallOutcome outcome = run_in_worker(call, target_);
    after_others_ |= outcome.calls_before > calls_++;
    if (outcome.kind != CallOutcome::Kind::done) {
      if (outcome.kind == CallOutcome::Kind::refused && !stage.empty())
        add_result(stage, Status::fail, fmt::format("promised, but refused: {}", outcome.detail));
      else
        add_result(stage, status_of(outcome.kind), outcome.detail);
      return false;
    }
    for (const std::string& trespass : call.trespasses())
      add_result(joined(stage, "memory"), Status::fail, trespass);
    return true;
  }

  void check_second_run(const KernelCall& first,
                        const std::function<std::unique_ptr<KernelCall>()>& make) {
    const std::unique_ptr<KernelCall> second = make();
    if (!ends_well(*second, "second run")) return;
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

  void add(const std::vector<Finding>& findings, const std::string& stage = "") {
    for (const Finding& finding : findings) {
      results_.push_back(to_result(joined(name_, stage), finding, repro_));
      results_.back().seconds = watch_.seconds();
    }
  }
  void add_result(const std::string& stage, Status status, const std::string& detail) {
    results_.push_back({joined(name_, stage), status, detail, repro_, watch_.seconds()});
  }

  const mlacheck_kernel& kernel_;
  NumericsContract contract_;
  KernelTarget target_;
  std::string name_;
  std::string repro_;
  Stopwatch watch_;
  std::vector<CheckResult> results_;
  std::int64_t calls_ = 0;
  bool after_others_ = false;
};

// One kernel's check, `check(KernelCheck&)`.
template <class Check>
std::vector<CheckResult> run_check(const KernelLibrary& library, const mlacheck_kernel& kernel,
                                   const std::string& repro, Check check) {
  KernelCheck used(library, kernel, repro);
  std::vector<CheckResult> results = check(used);
  if (!used.after_others() || !goes_wrong(results) || library.hung()) return results;
  KernelCheck fresh(library.afresh(), kernel, repro);
  return told_apart(std::move(results), check(fresh));
}

std::string_view asked_operator(const Recipe& recipe) {
  if (const auto* scores = std::get_if<IndexScoresRecipe>(&recipe))
    return scores->table == BlockTable::none ? "index_scores without a block table"
                                             : "index_scores";
  return std::holds_alternative<TopKRecipe>(recipe) ? "top_k" : "sparse_attention";
}

// What to say where nothing of the library could be judged.
CheckResult no_kernel(std::string_view asked, const KernelLibrary& library,
                      const std::string& repro) {
  std::set<std::string_view> offered;
  for (const mlacheck_kernel* kernel : library.kernels()) offered.insert(operator_name(kernel->op));
  return {library.path().filename().string(), Status::skipped,
          fmt::format("has no kernel for {}; it has {}", asked, fmt::join(offered, ", ")), repro,
          0};
}

}  // namespace

std::vector<CheckResult> check_kernel(const Recipe& recipe, const KernelLibrary& library,
                                      const mlacheck_kernel& kernel) {
  if (!is_for(kernel.op, recipe)) return {};
  return run_check(library, kernel, repro_of(recipe, &library),
                   [&](KernelCheck& check) { return check.run_recipe(recipe); });
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
    for (CheckResult& result : check_kernel(recipe, library, *kernel))
      results.push_back(std::move(result));
  }
  if (results.empty())
    results.push_back(no_kernel(asked_operator(recipe), library, repro_of(recipe, &library)));
  return results;
}

std::vector<CheckResult> check_attention_kernels(const SparseAttentionProblem& problem,
                                                 const KernelLibrary& library,
                                                 const std::string& repro) {
  std::vector<CheckResult> results;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_SPARSE_ATTENTION) continue;
    for (CheckResult& result : run_check(library, *kernel, repro, [&](KernelCheck& check) {
           return check.run_attention(problem);
         }))
      results.push_back(std::move(result));
  }
  if (results.empty()) results.push_back(no_kernel("sparse_attention", library, repro));
  return results;
}

IndexKernelsCheck check_index_kernels(const IndexScoresProblem& problem, std::int64_t k,
                                      const KernelLibrary& library, const std::string& repro) {
  IndexKernelsCheck check;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    if (kernel->op != MLACHECK_INDEX_SCORES && kernel->op != MLACHECK_INDEX_SELECT) continue;
    std::vector<std::int32_t> selected;
    for (CheckResult& result : run_check(library, *kernel, repro, [&](KernelCheck& one) {
           return one.run_index(problem, k, selected);
         }))
      check.results.push_back(std::move(result));
    if (check.selected.empty()) check.selected = std::move(selected);
  }
  return check;
}

std::optional<CallOutcome> support_of(const KernelLibrary& library, const mlacheck_kernel& kernel,
                                      const Recipe& recipe) {
  if (!is_for(kernel.op, recipe)) return std::nullopt;
  std::unique_ptr<KernelCall> call;
  if (const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe))
    call = make_call(SparseAttentionCase(*attention));
  else if (const auto* top_k = std::get_if<TopKRecipe>(&recipe))
    call = make_call(problem_of(TopKCase(*top_k)));
  else
    call = index_call(kernel.op, IndexScoresCase(std::get<IndexScoresRecipe>(recipe)).problem);
  CallOutcome outcome = ask_in_worker(*call, library.target(kernel.name));
  // Its own crash, or that of a call before it?
  if (outcome.calls_before > 0 && outcome.kind == CallOutcome::Kind::crashed)
    outcome = ask_in_worker(*call, library.afresh().target(kernel.name));
  return outcome;
}

}  // namespace mlacheck