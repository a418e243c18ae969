#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/arithmetic/dot_block.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_weighted_sums.h"
#include "reference/arithmetic/sincos.h"

namespace mlacheck {
namespace {

// Heads, latent width and KV rows of one token; 128 rows fit the second cache, 2048 (the top-k) do
// not.
constexpr std::int64_t kHeads = 8, kDim = 576, kValueDim = 512;

std::vector<float> numbers(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  float next = 1;
  for (float& value : x) {
    value = next - 1.5f;
    next = next > 1.9f ? 1.0f : next * 1.01f;
  }
  return x;
}

void dots(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  use_instruction_set(static_cast<InstructionSet>(state.range(1)));
  state.SetLabel(std::string(name_of(instruction_set())));
  const std::vector<float> q = numbers(kHeads * kDim), kv = numbers(rows * kDim);
  std::vector<float> scores(static_cast<std::size_t>(kHeads * rows));
  for (auto _ : state) {
    dot_block({.x = q.data(),
               .x_stride = kDim,
               .tokens = kHeads,
               .w = kv.data(),
               .outputs = rows,
               .n = kDim,
               .y = scores.data(),
               .y_stride = rows});
    benchmark::DoNotOptimize(scores.data());
    benchmark::ClobberMemory();
  }
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(kHeads * rows * kDim),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
void every_set(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t rows : {128, 2048})
    for (const InstructionSet set : instruction_sets())
      benchmark->Args({rows, static_cast<std::int64_t>(set)});
}
BENCHMARK(dots)->Apply(every_set);

template <int R>
void weighted_sums(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const std::vector<float> w = numbers(kHeads * rows), kv = numbers(rows * kDim);
  std::vector<float> out(static_cast<std::size_t>(kHeads * kValueDim));
  for (auto _ : state) {
    for (std::int64_t h = 0; h < kHeads; h += R)
      ordered_weighted_sums<R>(w.data() + h * rows, rows, kv.data(), kDim, rows, kValueDim,
                               out.data() + h * kValueDim, kValueDim);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(kHeads * rows * kValueDim),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(weighted_sums<1>)->Arg(128)->Arg(2048);
BENCHMARK(weighted_sums<2>)->Arg(128)->Arg(2048);
BENCHMARK(weighted_sums<4>)->Arg(128)->Arg(2048);

template <auto kFunction>
void elementwise(benchmark::State& state) {
  const std::vector<float> x = numbers(2048);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = kFunction(x[i]);
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * std::ssize(x));
}
BENCHMARK(elementwise<exp2_f32>)->Name("exp2_f32");
BENCHMARK(elementwise<[](float x) { return log2_f32(std::fabs(x)); }>)->Name("log2_f32");
BENCHMARK(elementwise<[](float x) { return sincos_f32(1e4f * x).cos; }>)->Name("sincos_f32");

}  // namespace
}  // namespace mlacheck
