#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/sparse_attention.h"
#include "reference/operators/top_k.h"

namespace mlacheck {
namespace {

// Values in [-1, 1) from a 64-bit linear congruential generator.
std::vector<float> noise(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::uint64_t state = 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
  return values;
}

std::vector<Bf16> bf16_noise(std::int64_t n) {
  const std::vector<float> values = noise(n);
  std::vector<Bf16> rounded(values.size());
  store_row(values.data(), DType::bf16, n, rounded.data());
  return rounded;
}

// Of process CPU time, so per core.
void set_rate(benchmark::State& state, std::int64_t products) {
  state.counters["MAC/s a core"] = benchmark::Counter(
      static_cast<double>(products), benchmark::Counter::kIsIterationInvariantRate);
}

// One GLM-5 token: H = 64, K = state.range(0), 576 / 512, bf16.
void sparse_attention_token(benchmark::State& state) {
  SparseAttentionProblem problem;
  problem.tokens = 1;
  problem.heads = 64;
  problem.topk = state.range(0);
  problem.sm_scale = 0x1p-4f;
  const std::int64_t slots = 8192;
  const auto q = bf16_noise(problem.heads * problem.qk_dim);
  const auto kv = bf16_noise(slots * problem.qk_dim);
  std::vector<std::int32_t> indices(static_cast<std::size_t>(problem.topk));
  for (std::size_t j = 0; j < indices.size(); ++j)
    indices[j] = static_cast<std::int32_t>(j * 2741 % static_cast<std::size_t>(slots));
  problem.q = {q.data(), DType::bf16, problem.heads * problem.qk_dim, problem.qk_dim};
  problem.kv = flat_rows(kv.data(), DType::bf16, slots, problem.qk_dim);
  problem.indices = indices.data();
  for (auto _ : state) benchmark::DoNotOptimize(sparse_attention(problem));
  set_rate(state, problem.heads * problem.topk * (problem.qk_dim + problem.v_dim));
}
BENCHMARK(sparse_attention_token)->Arg(2048)->Arg(128)->MeasureProcessCPUTime();

// One GLM-5 token: Hi = 32, dim 128, e4m3 queries and key pages of 64 rows.
void index_scores_token(benchmark::State& state) {
  IndexScoresProblem problem;
  problem.tokens = 1;
  problem.heads = 32;
  problem.key_count = state.range(0);
  std::vector<E4m3> q(static_cast<std::size_t>(problem.heads * problem.dim));
  store_row(noise(problem.heads * problem.dim).data(), DType::e4m3, problem.heads * problem.dim,
            q.data());
  std::vector<E4m3> pages(static_cast<std::size_t>(problem.key_count / 64 * 64 * 132));
  store_row(noise(problem.key_count * 132).data(), DType::e4m3, problem.key_count * 132,
            pages.data());
  const auto weights = noise(problem.heads);
  problem.q = {q.data(), DType::e4m3, problem.heads * problem.dim, problem.dim};
  problem.keys = {pages.data(), DType::e4m3, problem.key_count, 64, 64 * 132, 128, 64 * 128};
  problem.weights = weights.data();
  for (auto _ : state) benchmark::DoNotOptimize(index_scores(problem));
  set_rate(state, problem.heads * problem.key_count * problem.dim);
}
BENCHMARK(index_scores_token)->Arg(1 << 15)->MeasureProcessCPUTime();

void top_k_2048(benchmark::State& state) {
  const auto scores = noise(state.range(0));
  std::vector<std::int32_t> indices(2048);
  for (auto _ : state) {
    top_k(scores.data(), 0, state.range(0), 2048, indices.data());
    benchmark::DoNotOptimize(indices.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(top_k_2048)->Arg(1 << 17)->MeasureProcessCPUTime();

}  // namespace
}  // namespace mlacheck
