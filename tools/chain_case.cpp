#include "tools/chain_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>

#include "tools/kernel_bridge.h"

namespace mlacheck {

namespace {

constexpr std::int64_t kAttentionHeads = 64;  // of attention

SparseAttentionRecipe attention_of(const IndexScoresCase& scores, std::int64_t k) {
  const IndexScoresRecipe& r = scores.recipe;
  SparseAttentionRecipe attention;
  attention.tokens = r.tokens;
  attention.heads = kAttentionHeads;
  attention.topk = k;
  attention.slots = scores.problem.keys.slots;
  attention.q_dtype = r.q_dtype;
  attention.kv = r.key_dtype == DType::f16   ? KvFormat::f16
                 : r.key_dtype == DType::f32 ? KvFormat::f32
                                             : KvFormat::bf16;
  attention.page_size = r.page_size;
  attention.page_gap = r.page_gap;
  attention.seed = r.seed;
  return attention;
}

const IndexScoresRecipe& checked(const IndexScoresRecipe& recipe) {
  if (recipe.requests != 1)
    throw std::invalid_argument(
        fmt::format("a chain of {} requests: map_slots knows one block table", recipe.requests));
  if (recipe.key_dtype == DType::e4m3 || recipe.q_dtype == DType::e4m3)
    throw std::invalid_argument("a chain of e4m3: attention has no cache of it");
  return recipe;
}

// A call as a stage, with some inputs of earlier stages.
KernelCall::Stage stage_of(const KernelCall& call, std::vector<KernelCall::Link> links) {
  KernelCall::Stage stage;
  stage.problem = call.problem();
  for (std::uint32_t i = 0; i < kCallTensors; ++i) {
    const auto tensor = static_cast<CallTensor>(i);
    const std::span<const std::byte> bytes = call.tensor(tensor);
    if (bytes.empty()) continue;
    const bool is_linked =
        std::ranges::any_of(links, [&](const KernelCall::Link& l) { return l.input == tensor; });
    if (is_output(tensor))
      stage.outputs.push_back({tensor, bytes.size()});
    else if (!is_linked)
      stage.inputs.push_back({tensor, bytes});
  }
  stage.links = std::move(links);
  return stage;
}

}  // namespace

ChainCase::ChainCase(const IndexScoresRecipe& recipe)
    : scores(checked(recipe)),
      k(selected_keys(scores.problem)),
      attention(attention_of(scores, k)) {}

std::unique_ptr<KernelCall> make_timed_call(const ChainCase& chain, const TimedCalls& timed) {
  const std::int64_t rows = timed.tokens * timed.calls;
  IndexScoresProblem p = chain.scores.problem;
  p.tokens = rows;
  const TimedCalls all = {.tokens = rows, .calls = 1};
  // What is linked has its size alone.
  const std::vector<float> no_scores(static_cast<std::size_t>(rows * p.key_count));
  const std::vector<std::int32_t> no_positions(static_cast<std::size_t>(rows * chain.k));

  std::vector<std::unique_ptr<KernelCall>> calls;
  std::vector<KernelCall::Stage> stages;
  const auto add = [&](std::unique_ptr<KernelCall> call, std::vector<KernelCall::Link> links) {
    stages.push_back(stage_of(*call, std::move(links)));
    calls.push_back(std::move(call));
  };
  add(make_call(p), {});
  stages.back().own_caches = timed.own_caches;
  stages.back().problem.u.index_scores.tokens = timed.tokens;
  add(make_call(TopKProblem{rows, p.key_count, chain.k, no_scores.data(), p.key_begin, p.key_end}),
      {{CallTensor::scores_in, 0, CallTensor::scores_out}});
  stages.back().problem.u.top_k.rows = timed.tokens;
  KernelCall::Link indices = {CallTensor::indices, 1, CallTensor::selected};
  if (chain.has_slots()) {
    add(make_map_slots_call(p, no_positions), {{CallTensor::positions, 1, CallTensor::selected}});
    stages.back().problem.u.map_slots.count = timed.tokens * chain.k;
    indices = {CallTensor::indices, 2, CallTensor::slots};
  }
  add(make_timed_call(chain.attention, all), {indices});
  stages.back().problem.u.sparse_attention.tokens = timed.tokens;
  return std::make_unique<KernelCall>(stages, timed.calls);
}

}  // namespace mlacheck
