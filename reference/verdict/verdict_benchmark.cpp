// Time to judge one token of the real size: 64 heads, 2,048 keys, 576 + 512 dimensions.

#include <benchmark/benchmark.h>

#include "reference/oracle/test_problem.h"
#include "reference/verdict/sparse_attention_interval.h"

namespace mlacheck {
namespace {

testing::TestProblem token() {
  return testing::make_problem(testing::Regime::flat, {.heads = 64, .keys = 2048}, 1);
}

void oracle(benchmark::State& state) {
  testing::TestProblem test = token();
  test.view();
  for (auto _ : state) benchmark::DoNotOptimize(sparse_attention_oracle(test.problem, 0));
}
BENCHMARK(oracle)->Unit(benchmark::kMillisecond);

void interval(benchmark::State& state) {
  testing::TestProblem test = token();
  const SparseAttentionOracle answer = sparse_attention_oracle(test.view(), 0);
  const NumericsContract contract = reference_contract();
  for (auto _ : state) benchmark::DoNotOptimize(sparse_attention_interval(answer, contract));
}
BENCHMARK(interval)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mlacheck
