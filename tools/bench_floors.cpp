#include "tools/bench_floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/plugin/kernel_worker.h"
#include "tools/kernel_bridge.h"

namespace mlacheck {

namespace {

// Long enough that a launch's few microseconds are nothing: rows to fetch, heads to multiply for.
constexpr std::int64_t kEntries = 2048, kTokens = 1024, kHeads = 64, kSlots = 4096;

}  // namespace

Floor floor_of(const CallWork& work, const MachineRates& rates) {
  const double rows = (work.row_bytes + work.other_bytes) / rates.bytes_per_second;
  const double mma = work.flops / rates.flops_per_second;
  return rows >= mma ? Floor{rows, "rows"} : Floor{mma, "mma"};
}

double RateMeter::seconds_of(const SparseAttentionCase& attention, const char* kernel,
                             Answer& answer) {
  const auto call = make_timed_call(attention, attention.problem.tokens, 1, false);
  const CallOutcome outcome = time_in_worker(*call, floors_.target(kernel));
  if (outcome.kind == CallOutcome::Kind::refused) answer.refusal = outcome.detail;
  if (outcome.kind != CallOutcome::Kind::done && outcome.kind != CallOutcome::Kind::refused)
    throw std::runtime_error(fmt::format("{}: {} on {}: {}", floors_.path().filename().string(),
                                         kernel, minimal(attention.recipe), outcome.detail));
  return call->times().in_graph;
}

const RateMeter::Answer& RateMeter::rates(const SparseAttentionRecipe& recipe) {
  SparseAttentionRecipe rows;  // of the recipe's cache
  rows.qk_dim = recipe.qk_dim;
  rows.v_dim = recipe.v_dim;
  rows.slots = recipe.slots;
  rows.page_size = recipe.page_size;
  rows.page_gap = recipe.page_gap;
  rows.row_pad = recipe.row_pad;
  rows.kv = recipe.kv;
  rows.q_dtype = recipe.q_dtype;
  rows.heads = 1;
  rows.tokens = kTokens;
  rows.topk = std::min(kEntries, recipe.slots);
  const auto [found, is_new] = measured_.try_emplace(canonical(rows));
  Answer& answer = found->second;
  if (!is_new) return answer;

  const SparseAttentionCase fetched(rows);
  const CallWork fetch = work_of(fetched, {rows.tokens, 1});
  const double seconds = seconds_of(fetched, "row_gather", answer);
  if (!answer.refusal.empty()) return answer;
  answer.rates.bytes_per_second = fetch.row_bytes / seconds;

  SparseAttentionRecipe steps = rows;
  steps.slots = kSlots;
  steps.topk = kEntries;
  steps.heads = kHeads;
  const SparseAttentionCase multiplied(steps);
  const double flops = work_of(multiplied, {steps.tokens, 1}).flops;
  answer.rates.flops_per_second = flops / seconds_of(multiplied, "matrix_steps", answer);
  return answer;
}

}  // namespace mlacheck
