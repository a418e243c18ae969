#pragma once

#include <cstdint>

#include "cuda/device/barrier.h"
#include "cuda/device/matrix.h"

namespace mlacheck::kernels {

// The floor of whatever multiplies: as many steps of mma_m16n8k16 as a problem has, on operands
// that stay in registers.
struct MatrixSteps {
  static constexpr unsigned kThreads = 512;
  static constexpr int kChains = 8;  // independent accumulators of a warp: more are not faster
  static constexpr std::int64_t kProducts = 16 * 8 * 16;  // of a step

  struct Shared {
    std::byte operands[16][32];
  };
};

struct MatrixStepsArguments {
  const std::uint32_t* values;  // 128 words: the operands
  std::int64_t rounds;          // of kChains steps, for each warp
  float* unwritten;
};

template <device::Element E>
MLACHECK_KERNEL(MatrixSteps::kThreads, 1)
matrix_steps(const MatrixStepsArguments arguments) {
  using K = MatrixSteps;
  K::Shared& s = device::shared_memory<K::Shared>();
  const unsigned thread = device::thread_index(), lane = device::lane_index();
  if (thread < sizeof(K::Shared) / 4)
    device::store(device::shared(s.operands[thread / 8][thread % 8 * 4]).template as<unsigned>(),
                  device::load_constant(arguments.values + thread));
  device::sync_block();
  device::FragmentA a;
  device::FragmentB b;
  device::load_matrix(a, device::shared(s.operands[lane % 16][lane / 16 * 16]));
  device::load_matrix(b, device::shared(s.operands[lane % 8][lane / 8 % 2 * 16]));
  device::Accumulator sum[K::kChains];
  MLACHECK_UNROLL
  for (int i = 0; i < K::kChains; ++i) sum[i].clear();
  MLACHECK_ROLLED
  for (std::int64_t round = 0; round < arguments.rounds; ++round) MLACHECK_UNROLL
  for (int i = 0; i < K::kChains; ++i) device::mma_m16n8k16<E>(sum[i], a, b);
  // Never: but a compiler that does not know it keeps the steps.
  float total = 0;
  MLACHECK_UNROLL
  for (int i = 0; i < K::kChains; ++i) total += (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
  if (total == 0x1.234568p+99f) device::store(arguments.unwritten, total);
}

}  // namespace mlacheck::kernels
