#pragma once

#include <cstdint>

#include "cuda/device/arithmetic.h"
#include "cuda/device/memory.h"
#include "cuda/device/thread.h"

namespace mlacheck::kernels {

// Logical positions to physical slots, each row through the block table of its request:
//
//   slot = block_table[position / block_size] * block_size + position % block_size
//
// A negative position, one past the table, or one on a negative entry of it gives -1. Slots are
// below 2^31.
struct MapSlotsArguments {
  const std::int32_t* positions;  // [rows, columns]; may be slots
  std::int32_t* slots;
  device::Divisor columns;
  std::uint32_t count;              // rows * columns: below 2^31
  const std::int32_t* block_table;  // [requests, stride]
  std::int64_t stride;
  std::int64_t blocks;          // of a row of the table
  const std::int32_t* request;  // [rows], or null: row 0 of the table
  device::Divisor block_size;
};

struct MapSlots {
  static constexpr unsigned kThreads = 256, kPerThread = 4;
};

MLACHECK_KERNEL(MapSlots::kThreads, 1)
map_slots(const MapSlotsArguments arguments) {
  const MapSlotsArguments& a = arguments;
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();
  const std::uint32_t step = device::grid_blocks() * MapSlots::kThreads;
  std::uint32_t i = device::block_index() * MapSlots::kThreads + device::thread_index();
  MLACHECK_ROLLED
  for (; i < a.count; i += step) {
    const std::int32_t position = device::load(a.positions + i);
    std::int32_t slot = -1;
    if (position >= 0) {
      const std::uint32_t block = a.block_size.quotient(static_cast<std::uint32_t>(position));
      if (block < a.blocks) {
        const std::int64_t row =
            a.request == nullptr ? 0 : device::load(a.request + a.columns.quotient(i));
        const std::int32_t entry = device::load(a.block_table + row * a.stride + block);
        if (entry >= 0)
          slot = static_cast<std::int32_t>(
              std::int64_t{entry} * a.block_size.divisor() +
              (static_cast<std::uint32_t>(position) - block * a.block_size.divisor()));
      }
    }
    device::store(a.slots + i, slot);
  }
}

}  // namespace mlacheck::kernels
