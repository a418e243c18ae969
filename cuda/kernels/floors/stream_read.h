#pragma once

#include <cstdint>

#include "cuda/device/memory.h"
#include "cuda/device/thread.h"

namespace mlacheck::kernels {

// The floor of whatever reads a tensor from end to end: every 16 bytes once, many at a time.
struct StreamRead {
  static constexpr unsigned kThreads = 512, kBlocks = 3;  // of an SM
  static constexpr int kAhead = 8;                        // loads of a thread on their way
};

struct StreamReadArguments {
  const device::Words4* words;
  std::int64_t count;
  std::uint32_t* unwritten;
};

MLACHECK_KERNEL(StreamRead::kThreads, StreamRead::kBlocks)
stream_read(const StreamReadArguments arguments) {
  using K = StreamRead;
  const std::int64_t step = std::int64_t{device::grid_blocks()} * K::kThreads;
  std::int64_t at = std::int64_t{device::block_index()} * K::kThreads + device::thread_index();
  std::uint32_t all = 0;
  MLACHECK_ROLLED
  for (; at < arguments.count; at += step * K::kAhead) {
    device::Words4 words[K::kAhead] = {};
    MLACHECK_UNROLL
    for (int i = 0; i < K::kAhead; ++i)
      if (at + i * step < arguments.count)
        words[i] = device::load_constant(arguments.words + at + i * step);
    MLACHECK_UNROLL
    for (int i = 0; i < K::kAhead; ++i)
      all ^= words[i].word[0] ^ words[i].word[1] ^ words[i].word[2] ^ words[i].word[3];
  }
  // Next to never: but a compiler that does not know it keeps the loads.
  if (all == 0x9e3779b9u) device::store(arguments.unwritten, all);
}

}  // namespace mlacheck::kernels
