// G products/s of the tensor-core step, one core. "bulk": 64 x 16 x 576, operands prepared before;
// "tile": one instruction at a time, preparation included, as an emulated warp calls it.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "reference/arithmetic/tensor_core.h"
#include "reference/arithmetic/tensor_core_slow.h"
#include "reference/formats/bf16.h"
#include "reference/formats/e4m3.h"
#include "reference/formats/f16.h"

namespace mlacheck {
namespace {

template <class Bits>
std::vector<Bits> normal_bits(DType element, std::size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<Bits> bits(n);
  for (Bits& x : bits) {
    const float value = normal(engine);
    if constexpr (sizeof(Bits) == 1)
      x = to_e4m3_saturating(value).bits;
    else
      x = element == DType::f16 ? to_f16(value).bits : to_bf16(value).bits;
  }
  return bits;
}

void count_products(benchmark::State& state, double products) {
  state.counters["products/s"] = benchmark::Counter(
      products * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

template <class Bits>
void bulk(benchmark::State& state, Mma mma, TensorCoreIsa isa) {
  constexpr int kRows = 64;
  constexpr int kColumns = 16;
  constexpr int kK = 576;
  use_tensor_core_isa(isa);
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
void tile(benchmark::State& state, Mma mma, TensorCoreIsa isa, Instruction* instruction) {
  use_tensor_core_isa(isa);
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

void register_instruction(DType element, Lowering lowering) {
  const Mma mma{element, lowering};
  const std::string of = std::string(name_of(element)) + "/" + std::string(name_of(lowering)) + "/";
  const bool wide = mma_k(mma) == 32;
  for (TensorCoreIsa isa : tensor_core_isas()) {
    const std::string name = of + std::string(name_of(isa));
    benchmark::RegisterBenchmark(("bulk/" + name).c_str(), [=](benchmark::State& state) {
      wide ? bulk<std::uint8_t>(state, mma, isa) : bulk<std::uint16_t>(state, mma, isa);
    });
    benchmark::RegisterBenchmark(("tile/" + name).c_str(), [=](benchmark::State& state) {
      wide ? tile<std::uint8_t, 32>(state, mma, isa, mma_m16n8k32)
           : tile<std::uint16_t, 16>(state, mma, isa, mma_m16n8k16);
    });
  }
  benchmark::RegisterBenchmark(("tile/" + of + "slow").c_str(), [=](benchmark::State& state) {
    wide ? tile<std::uint8_t, 32>(state, mma, TensorCoreIsa::portable, mma_m16n8k32_slow)
         : tile<std::uint16_t, 16>(state, mma, TensorCoreIsa::portable, mma_m16n8k16_slow);
  });
}

const bool kRegistered = [] {
  for (DType element : {DType::f16, DType::bf16})
    for (Lowering lowering : {Lowering::hmma16_f25, Lowering::hmma8_f24})
      register_instruction(element, lowering);
  for (Lowering lowering :
       {Lowering::qmma32_f25, Lowering::fp8_emulated_sm90, Lowering::qmma16_f13})
    register_instruction(DType::e4m3, lowering);
  return true;
}();

}  // namespace
}  // namespace mlacheck
