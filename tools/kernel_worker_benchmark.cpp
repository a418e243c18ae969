// What a call of a kernel in another process costs, on a problem that is next to none.

#include <benchmark/benchmark.h>

#include <stdexcept>

#include "cuda/plugin/kernel_worker.h"
#include "cuda/plugin/library_description.h"
#include "fixtures/case.h"
#include "tools/kernel_bridge.h"
#include "tools/kernel_checks.h"

namespace mlacheck {
namespace {

const Recipe& recipe() {
  static const Recipe small = parse_recipe("mlacheck1 op=sparse_attention t=1 h=2 k=16 n=64");
  return small;
}

KernelLibrary reference() {
  return describe_in_worker(service_by(MLACHECK_PROGRAM, MLACHECK_REFERENCE_LIBRARY));
}

// Laid out, made, fetched.
void BM_Call(benchmark::State& state) {
  const KernelLibrary library = reference();
  const SparseAttentionCase c(std::get<SparseAttentionRecipe>(recipe()));
  double in_kernel = 0;
  for (auto _ : state) {
    const auto call = make_call(c);
    const CallOutcome outcome = run_in_worker(*call, library.target("sparse_attention"));
    if (outcome.kind != CallOutcome::Kind::done) throw std::runtime_error(outcome.detail);
    in_kernel += outcome.seconds;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["us_in_kernel"] = 1e6 * in_kernel / static_cast<double>(state.iterations());
}
BENCHMARK(BM_Call)->Unit(benchmark::kMicrosecond)->UseRealTime();

// A whole case: made, four calls, judged.
void BM_Case(benchmark::State& state) {
  const KernelLibrary library = reference();
  const mlacheck_kernel& kernel = library.kernel("sparse_attention");
  for (auto _ : state) benchmark::DoNotOptimize(check_kernel(recipe(), library, kernel));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Case)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace mlacheck
