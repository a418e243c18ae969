#pragma once

#include "cuda/kernels/gather.h"

namespace mlacheck::kernels {

// The floor of whatever gathers rows: every entry's row into shared memory, by the copies that
// sparse_attention makes, and nothing else. As many rows are on their way as fit. An SM takes
// entries in turn with the others; a thread keeps one row of shared memory filled.
struct RowGather {
  static constexpr unsigned kThreads = 160, kRowsOfWarp = 16;
  static constexpr unsigned kRows = kThreads / device::kWarpSize * kRowsOfWarp;

  struct Shared {
    std::byte rows[kRows][kRowBytes];
    device::Barrier arrived[kRows];
  };
  static_assert(sizeof(Shared) <= device::kSharedMemoryLimit);
};

// indices [tokens * topk], dense.
MLACHECK_KERNEL(RowGather::kThreads, 1)
row_gather(const SparseAttentionArguments arguments) {
  using K = RowGather;
  const SparseAttentionArguments& a = arguments;
  K::Shared& s = device::shared_memory<K::Shared>();
  if (device::thread_index() == 0) {
    MLACHECK_ROLLED
    for (unsigned i = 0; i < K::kRows; ++i) device::initialise(device::shared(s.arrived[i]), 1);
    device::publish_barriers();
  }
  device::sync_block();
  if (device::lane_index() >= K::kRowsOfWarp) return;
  const unsigned row = device::warp_index() * K::kRowsOfWarp + device::lane_index();
  const device::SharedPointer<device::Barrier> arrived = device::shared(s.arrived[row]);
  const std::int64_t entries = std::int64_t{a.items} * a.topk;
  const std::int64_t step = std::int64_t{device::grid_blocks()} * K::kRows;
  std::int64_t entry = std::int64_t{device::block_index()} * K::kRows + row;
  std::int32_t slot = entry < entries ? device::load_constant(a.indices + entry) : -1;
  unsigned parity = 1;
  MLACHECK_ROLLED
  for (; entry < entries; entry += step) {
    const std::int64_t next = entry + step;
    const std::int32_t later = next < entries ? device::load_constant(a.indices + next) : -1;
    if (static_cast<std::uint32_t>(slot) < a.slots) {
      device::wait(arrived, parity);
      device::arrive_expecting(arrived, kRowBytes);
      device::copy_bulk(device::shared(s.rows[row][0]),
                        row_address(a, static_cast<std::uint32_t>(slot)), kRowBytes, arrived);
      parity ^= 1;
    }
    slot = later;
  }
  device::wait(arrived, parity);  // shared memory is this block's until the last row is there
}

}  // namespace mlacheck::kernels
