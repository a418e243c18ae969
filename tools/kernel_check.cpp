#include "tools/kernel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>

#include "cuda/plugin/kernel_worker.h"
#include "reference/operators/map_slots.h"
#include "reference/verdict/bits.h"
#include "reference/verdict/check_index_scores.h"
#include "tools/judgements.h"
#include "tools/kernel_contract.h"

namespace mlacheck {

namespace {

// The positions that map_slots is tried on: all keys, out of order, absent and past the table.
std::vector<std::int32_t> positions_of(const IndexScoresProblem& problem) {
  std::vector<std::int32_t> positions = {-1, static_cast<std::int32_t>(problem.key_count - 1)};
  for (std::int64_t s = 0; s < problem.key_count; ++s)
    positions.push_back(static_cast<std::int32_t>(s));
  positions.push_back(static_cast<std::int32_t>(problem.block_table_stride * problem.block_size));
  return positions;
}

std::string joined(const std::string& name, const std::string& stage) {
  return name + (name.empty() || stage.empty() ? "" : " ") + stage;
}

}  // namespace

std::unique_ptr<KernelCall> index_call(std::int32_t op, const IndexScoresProblem& problem) {
  if (op == MLACHECK_INDEX_SELECT) return make_select_call(problem, selected_keys(problem));
  if (op == MLACHECK_MAP_SLOTS) return make_map_slots_call(problem, positions_of(problem));
  return make_call(problem);
}

std::string name_of(const KernelLibrary& library, const mlacheck_kernel& kernel) {
  return fmt::format("{}:{}", library.path().filename().string(), kernel.name);
}

KernelCheck::KernelCheck(const KernelLibrary& library, const mlacheck_kernel& kernel,
                         std::string repro)
    : kernel_(kernel),
      contract_(contract_of(kernel)),
      target_(library.target(kernel.name)),
      name_(name_of(library, kernel)),
      repro_(std::move(repro)) {}

std::vector<CheckResult> KernelCheck::run_recipe(const Recipe& recipe) {
  std::visit([this](const auto& r) { check(r); }, recipe);
  for (CheckResult& result : results_) distrust(result, recipe);
  return std::move(results_);
}

std::vector<CheckResult> KernelCheck::run_attention(const SparseAttentionProblem& problem) {
  const auto call = run([&] { return make_call(problem); });
  if (call) add(judge(problem, contract_, attention_result(*call)));
  return std::move(results_);
}

std::vector<CheckResult> KernelCheck::run_index(const IndexScoresProblem& problem, std::int64_t k,
                                                std::vector<std::int32_t>& selected) {
  if (kernel_.op == MLACHECK_INDEX_SELECT)
    selected = check_selection(problem, k);
  else
    check_scores(problem);
  return std::move(results_);
}

void KernelCheck::check(const SparseAttentionRecipe& recipe) {
  const SparseAttentionCase c(as_read_by(kernel_, recipe));
  const auto call = run([&] { return make_call(c); });
  if (!call) return;
  add(judge(c.problem, contract_, attention_result(*call)));
  if (contract_.batch_invariant && recipe.tokens > 0) check_batch_invariant(c);
}

void KernelCheck::check(const IndexScoresRecipe& recipe) {
  const IndexScoresCase c(recipe);
  if (kernel_.op == MLACHECK_INDEX_SELECT)
    check_selection(c.problem, selected_keys(c.problem));
  else if (kernel_.op == MLACHECK_MAP_SLOTS)
    check_slots(c.problem);
  else
    check_scores(c.problem);
}

void KernelCheck::check_scores(const IndexScoresProblem& problem) {
  const auto call = run([&] { return make_call(problem); });
  if (!call) return;
  add({check_index_scores(problem, contract_, scores_result(*call).data())});
  if (problem.key_begin != nullptr || problem.key_end != nullptr) check_unmasked(problem);
}

// The mode that leaves alone what stands outside of the rows' ranges, and scores no worse inside.
void KernelCheck::check_unmasked(const IndexScoresProblem& problem) {
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

// A promise: a mode in which a row has the same bits alone and among others, as right as those of
// any call.
void KernelCheck::check_batch_invariant(const SparseAttentionCase& c) {
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

std::vector<std::int32_t> KernelCheck::check_selection(const IndexScoresProblem& problem,
                                                       std::int64_t k) {
  const auto call = run([&] { return make_select_call(problem, k); });
  if (!call) return {};
  std::vector<std::int32_t> selected = selected_result(*call);
  add(judge(problem, contract_, kernel_.conventions.row_relative != 0, selected));
  return selected;
}

// Exact: integers. Without a block table there is nothing to map.
void KernelCheck::check_slots(const IndexScoresProblem& problem) {
  if (problem.block_table == nullptr) return;
  const std::vector<std::int32_t> positions = positions_of(problem);
  const auto call = run([&] { return index_call(kernel_.op, problem); });
  if (!call) return;
  std::vector<std::int32_t> expected(positions.size());
  map_slots(positions, {problem.block_table, static_cast<std::size_t>(problem.block_table_stride)},
            problem.block_size, expected);
  const std::vector<std::int32_t> slots = slots_result(*call);
  const std::array<std::int64_t, 1> shape = {std::ssize(slots)};
  add({compare_bits("map_slots", expected.data(), slots.data(), DType::i32, shape)});
}

void KernelCheck::check(const TopKRecipe& recipe) {
  const TopKCase c(recipe);
  const auto call = run([&] { return make_call(problem_of(c)); });
  if (call) add(judge(c, contract_, kernel_.conventions.row_relative != 0, selected_result(*call)));
}

// Null when the call did not end well; that is then a result already.
std::unique_ptr<KernelCall> KernelCheck::run(
    const std::function<std::unique_ptr<KernelCall>()>& make) {
  watch_ = {};
  std::unique_ptr<KernelCall> call = make();
  if (!ends_well(*call, "")) return nullptr;
  if (contract_.run_deterministic) check_second_run(*call, make);
  return call;
}

// Makes the call. How it ended, if not well, and what it wrote outside its outputs are results
// already. A stage with a name is one that the kernel promised: to refuse it is to break the
// promise.
bool KernelCheck::ends_well(const KernelCall& call, const std::string& stage) {
  if (hung_) return false;  // what is left of the check would cost as much again
  const CallOutcome outcome = run_in_worker(call, target_);
  after_others_ |= outcome.calls_before > calls_++;
  if (outcome.kind != CallOutcome::Kind::done) {
    if (outcome.kind == CallOutcome::Kind::refused && !stage.empty())
      add_result(stage, Status::fail, fmt::format("promised, but refused: {}", outcome.detail));
    else
      add_result(stage, status_of(outcome.kind), outcome.detail);
    hung_ = outcome.kind == CallOutcome::Kind::timed_out;
    results_.back().hung = hung_;
    return false;
  }
  for (const std::string& trespass : call.trespasses())
    add_result(joined(stage, "memory"), Status::fail, trespass);
  return true;
}

void KernelCheck::check_second_run(const KernelCall& first,
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

void KernelCheck::add(const std::vector<Finding>& findings, const std::string& stage) {
  for (const Finding& finding : findings) {
    results_.push_back(to_result(joined(name_, stage), finding, repro_));
    results_.back().seconds = watch_.seconds();
  }
}

void KernelCheck::add_result(const std::string& stage, Status status, const std::string& detail) {
  results_.push_back({joined(name_, stage), status, detail, repro_, watch_.seconds()});
}

}  // namespace mlacheck
