// G products/s of a core on a small kernel: C = A B with tiles copied to shared memory, 16 warps,
// by each variant of the tensor core. All checks are on.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cuda/device/barrier.h"
#include "cuda/device/launch.h"
#include "cuda/device/matrix.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"
#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/tensor_core.h"
#include "reference/formats/f16.h"

namespace mlacheck {
namespace {

using namespace device;  // NOLINT: a kernel's own names

constexpr unsigned kRows = 64;      // of A and C
constexpr unsigned kColumns = 256;  // of B and C
constexpr unsigned kK = 2048;
constexpr unsigned kStride = kK + 8;  // of A and B
constexpr unsigned kStepK = 64;       // of a tile
constexpr unsigned kPitch = kStepK + 8;
constexpr unsigned kStages = 2;

struct Arguments {
  const std::uint16_t* a;  // [64][kStride]
  const std::uint16_t* b;  // [256][kStride]: B transposed
  float* c;                // [64][256]
};

struct Layout {
  Barrier full[kStages];
  Barrier empty[kStages];
  alignas(16) std::uint16_t a[kStages][kRows][kPitch];
  alignas(16) std::uint16_t b[kStages][kColumns][kPitch];
};

// A warp has 16 rows and 64 columns of C.
void multiply(Arguments arguments) {
  Layout& s = shared_memory<Layout>();
  const unsigned thread = thread_index(), lane = lane_index(), warp = warp_index();
  if (thread == 0) {
    for (unsigned i = 0; i < kStages; ++i) {
      initialise(shared(s.full[i]), (kRows + kColumns) / 32);
      initialise(shared(s.empty[i]), 16);
    }
    publish_barriers();
  }
  sync_block();
  const unsigned row = warp % 4 * 16, column = warp / 4 * 64;
  Accumulator c[8];
  for (Accumulator& x : c) x.clear();
  for (unsigned step = 0; step < kK / kStepK + 1; ++step) {
    if (step < kK / kStepK && thread < kRows + kColumns) {
      const unsigned stage = step % kStages;
      wait(shared(s.empty[stage]), (step / kStages & 1) ^ 1);
      const bool of_a = thread < kRows;
      const unsigned r = of_a ? thread : thread - kRows;
      if (lane == 0) arrive_expecting(shared(s.full[stage]), 32 * kStepK * 2);
      sync_warp();
      copy_bulk(shared(of_a ? s.a[stage][r][0] : s.b[stage][r][0]).as<std::byte>(),
                (of_a ? arguments.a : arguments.b) + r * kStride + step * kStepK, kStepK * 2,
                shared(s.full[stage]));
    }
    if (step == 0) continue;
    const unsigned stage = (step - 1) % kStages;
    wait(shared(s.full[stage]), (step - 1) / kStages & 1);
    for (unsigned k = 0; k < kStepK; k += 16) {
      FragmentA a;
      load_matrix(a, shared(s.a[stage][row + lane % 16][k + lane / 16 * 8]).as<std::byte>());
      for (unsigned n = 0; n < 8; n += 2) {
        FragmentB b[2];
        load_matrix(
            b[0], b[1],
            shared(s.b[stage][column + n * 8 + lane / 16 * 8 + lane % 8][k + lane / 8 % 2 * 8])
                .as<std::byte>());
        mma_m16n8k16<Element::f16>(c[n], a, b[0]);
        mma_m16n8k16<Element::f16>(c[n + 1], a, b[1]);
      }
    }
    sync_warp();
    if (lane == 0) arrive(shared(s.empty[stage]));
  }
  for (unsigned n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i)
      store(arguments.c + (row + lane / 4 + i / 2 * 8) * kColumns + column + n * 8 + lane % 4 * 2 +
                i % 2,
            c[n][i]);
}

void gemm(benchmark::State& state) {
  const auto isa = static_cast<InstructionSet>(state.range(0));
  use_instruction_set(isa);
  state.SetLabel(std::string(name_of(isa)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> a(kRows * kStride);
  std::vector<std::uint16_t> b(kColumns * kStride);
  for (auto* values : {&a, &b})
    for (std::uint16_t& x : *values) x = to_f16(normal(random)).bits;
  std::vector<float> c(kRows * kColumns);
  emulator::SessionOptions options;
  options.host_threads = 1;
  emulator::Session session(options);
  Stream stream(&session);
  declare_memory(stream, "a", a.data(), a.size() * 2, Access::read);
  declare_memory(stream, "b", b.data(), b.size() * 2, Access::read);
  declare_memory(stream, "c", c.data(), c.size() * 4, Access::write);
  LaunchShape shape;
  shape.threads = 512;
  shape.shared_bytes = sizeof(Layout);
  for (auto _ : state) launch(stream, multiply, shape, {a.data(), b.data(), c.data()}, "multiply");
  state.counters["products/s"] =
      benchmark::Counter(double{kRows} * kColumns * kK * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}
void every_variant(benchmark::internal::Benchmark* benchmark) {
  for (InstructionSet isa : instruction_sets()) benchmark->Arg(static_cast<int>(isa));
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK(gemm)->Apply(every_variant);

}  // namespace
}  // namespace mlacheck
