#include "tools/bench_floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <variant>

#include "cuda/plugin/kernel_worker.h"

namespace mlacheck {

namespace {

// Long enough that a launch's few microseconds are nothing: rows to fetch, heads to multiply for,
// keys to read.
constexpr std::int64_t kEntries = 2048, kTokens = 1024, kHeads = 64, kSlots = 4096;
constexpr std::int64_t kKeys = 1 << 20;

// Rows of the recipe's cache.
SparseAttentionRecipe gather_recipe(const SparseAttentionRecipe& r) {
  SparseAttentionRecipe rows;
  rows.qk_dim = r.qk_dim;
  rows.v_dim = r.v_dim;
  rows.slots = r.slots;
  rows.page_size = r.page_size;
  rows.page_gap = r.page_gap;
  rows.row_pad = r.row_pad;
  rows.kv = r.kv;
  rows.q_dtype = r.q_dtype;
  rows.heads = 1;
  rows.tokens = kTokens;
  rows.topk = std::min(kEntries, r.slots);
  return rows;
}

SparseAttentionRecipe steps_recipe(DType q_dtype) {
  SparseAttentionRecipe steps;
  steps.q_dtype = q_dtype;
  steps.kv = q_dtype == DType::f16 ? KvFormat::f16 : KvFormat::bf16;
  steps.slots = kSlots;
  steps.topk = kEntries;
  steps.heads = kHeads;
  steps.tokens = kTokens;
  return steps;
}

IndexScoresRecipe read_recipe() {
  IndexScoresRecipe keys;
  keys.heads = 1;
  keys.tokens = 1;
  keys.keys = kKeys;
  return keys;
}

}  // namespace

Floor floor_of(const CallWork& work, const MachineRates& rates) {
  const double bytes = work.bytes() / rates.bytes_per_second;
  const double mma = work.flops > 0 ? work.flops / rates.flops_per_second : 0;
  return bytes >= mma ? Floor{bytes, "bytes"} : Floor{mma, "mma"};
}

const RateMeter::Measured& RateMeter::measure(const Recipe& recipe, const char* kernel) {
  const auto [found, is_new] =
      measured_.try_emplace(fmt::format("{} {}", kernel, canonical(recipe)));
  Measured& measured = found->second;
  if (!is_new) return measured;
  TimedCalls all;
  all.tokens = std::visit([](const auto& r) { return r.tokens; }, recipe);
  const auto bench = std::move(make_bench_cases(recipe).front());
  const auto call = bench->make_call(all);
  const CallOutcome outcome = time_in_worker(*call, floors_.target(kernel));
  if (outcome.kind == CallOutcome::Kind::refused)
    measured.refusal = outcome.detail;
  else if (outcome.kind != CallOutcome::Kind::done)
    throw std::runtime_error(fmt::format("{}: {} on {}: {}", floors_.path().filename().string(),
                                         kernel, minimal(recipe), outcome.detail));
  measured.work = bench->work(all);
  measured.seconds = outcome.times.in_graph;
  return measured;
}

RateMeter::Answer RateMeter::rates(const Recipe& recipe) {
  const auto* attention = std::get_if<SparseAttentionRecipe>(&recipe);
  const auto* scores = std::get_if<IndexScoresRecipe>(&recipe);
  const Measured& reads = attention != nullptr ? measure(gather_recipe(*attention), "row_gather")
                                               : measure(read_recipe(), "stream_read");
  if (!reads.refusal.empty()) return {{}, reads.refusal};
  MachineRates rates{reads.work.read_bytes / reads.seconds, 0};
  if (attention == nullptr && scores == nullptr) return {rates, ""};  // no products
  const DType q_dtype = attention != nullptr ? attention->q_dtype : scores->q_dtype;
  const Measured& steps = measure(steps_recipe(q_dtype), "matrix_steps");
  rates.flops_per_second = steps.work.flops / steps.seconds;
  return {rates, steps.refusal};
}

}  // namespace mlacheck
