// G products/s of the tensor-core step, one core. "bulk": 64 x 16 x 576, operands prepared before;
// "tile": one instruction at a time, preparation included, as an emulated warp calls it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/tensor_core.h"
#include "reference/arithmetic/tensor_core_cases.h"
#include "reference/arithmetic/tensor_core_slow.h"

namespace mlacheck {
namespace {

template <class Bits>
std::vector<Bits> normal_bits(DType element, std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<Bits> bits(n);
  for (Bits& x : bits) x = static_cast<Bits>(testing::element_bits(element, normal(engine)));
  return bits;
}

void count_products(benchmark::State& state, double products) {
  state.counters["products/s"] = benchmark::Counter(
      products * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

Mma mma_of(const benchmark::State& state) { return testing::kAllMma[state.range(0)]; }

void label(benchmark::State& state, std::string_view variant) {
  const Mma mma = mma_of(state);
  state.SetLabel(fmt::format("{} {} {}", name_of(mma.element), name_of(mma.lowering), variant));
}

// Arguments: instruction, variant.
void every_variant(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t mma = 0; mma < std::ssize(testing::kAllMma); ++mma)
    for (InstructionSet isa : instruction_sets()) benchmark->Args({mma, static_cast<int>(isa)});
}

void use_variant(benchmark::State& state) {
  use_instruction_set(static_cast<InstructionSet>(state.range(1)));
  label(state, name_of(instruction_set()));
}

template <class Bits>
void run_bulk(benchmark::State& state) {
  constexpr int kRows = 64;
  constexpr int kColumns = 16;
  constexpr int kK = 576;
  const Mma mma = mma_of(state);
  const MmaA a(mma, normal_bits<Bits>(mma.element, kRows * kK, 1).data(), kRows, kK, kK);
  const MmaB b(mma, normal_bits<Bits>(mma.element, kK * kColumns, 2).data(), kK, kColumns,
               kColumns);
  std::vector<float> c(kRows * kColumns);
  for (auto _ : state) {
    std::fill(c.begin(), c.end(), 0.0f);
    mma_accumulate(a, b, c.data(), kColumns);
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  }
  count_products(state, double{kRows} * kColumns * kK);
}

template <class Bits, int kK, class Instruction>
void run_tile(benchmark::State& state, Instruction* instruction) {
  const Mma mma = mma_of(state);
  Bits a[16][kK];
  Bits b[kK][8];
  float c[16][8] = {};
  std::copy_n(normal_bits<Bits>(mma.element, sizeof a / sizeof(Bits), 1).data(), 16 * kK, a[0]);
  std::copy_n(normal_bits<Bits>(mma.element, sizeof b / sizeof(Bits), 2).data(), 8 * kK, b[0]);
  for (auto _ : state) {
    instruction(mma, a, b, c, c);
    benchmark::DoNotOptimize(c);
    benchmark::ClobberMemory();
  }
  count_products(state, 16.0 * 8.0 * kK);
}

void bulk(benchmark::State& state) {
  use_variant(state);
  mma_k(mma_of(state)) == 16 ? run_bulk<std::uint16_t>(state) : run_bulk<std::uint8_t>(state);
}
BENCHMARK(bulk)->Apply(every_variant);

void tile(benchmark::State& state) {
  use_variant(state);
  mma_k(mma_of(state)) == 16 ? run_tile<std::uint16_t, 16>(state, mma_m16n8k16)
                             : run_tile<std::uint8_t, 32>(state, mma_m16n8k32);
}
BENCHMARK(tile)->Apply(every_variant);

void tile_slow(benchmark::State& state) {
  label(state, "slow");
  mma_k(mma_of(state)) == 16 ? run_tile<std::uint16_t, 16>(state, mma_m16n8k16_slow)
                             : run_tile<std::uint8_t, 32>(state, mma_m16n8k32_slow);
}
BENCHMARK(tile_slow)->DenseRange(0, std::ssize(testing::kAllMma) - 1);

}  // namespace
}  // namespace mlacheck
