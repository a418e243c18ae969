#include <benchmark/benchmark.h>
#include <omp.h>

#include "reference/layer/layer_testing.h"
#include "reference/layer/linear.h"

namespace mlacheck {
namespace {

// y = x W^T on one core, bf16 weights: MAC/s. Arguments: tokens, in, out.
void BM_Linear(benchmark::State& state) {
  omp_set_num_threads(1);
  Matrix x(state.range(0), state.range(1));
  x.data = testing::normals(x.data.size(), 1, 1);
  const std::int64_t weights = state.range(1) * state.range(2);
  const Weight w = testing::bf16_weight(state.range(2), state.range(1),
                                        testing::normals(static_cast<std::size_t>(weights), 1, 2));
  for (auto _ : state) benchmark::DoNotOptimize(linear(x, w, DType::bf16).data.data());
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(x.rows * weights),
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_Linear)
    ->Args({40, 6144, 2048})   // q_a_proj
    ->Args({40, 2048, 4096})   // indexer.wq_b
    ->Args({40, 16384, 1024})  // a sixth of o_proj
    ->Args({512, 6144, 576})   // kv_a_proj_with_mqa
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mlacheck
