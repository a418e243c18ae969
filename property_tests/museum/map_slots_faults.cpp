// Faults of the way from logical positions to slots.

#include <algorithm>

#include "property_tests/museum/map_slots_kernel.h"

namespace mlacheck::museum {

namespace {

std::int32_t map_in(const MapSlotsCall& call, std::int64_t position, std::int64_t block_size) {
  const std::int64_t block = position / block_size;
  if (position < 0 || block >= call.problem.blocks) return -1;
  return static_cast<std::int32_t>(call.tensors.block_table[block] * block_size +
                                   position % block_size);
}

std::int32_t map_honestly(const MapSlotsCall& call, std::int32_t position) {
  return map_in(call, position, call.problem.block_size);
}
std::int32_t map_absent_to_0(const MapSlotsCall& call, std::int32_t position) {
  return map_honestly(call, std::max(position, 0));
}
std::int32_t clamp_to_table(const MapSlotsCall& call, std::int32_t position) {
  const std::int64_t end = call.problem.blocks * call.problem.block_size;
  return map_in(call, position >= end ? 0 : position, call.problem.block_size);
}
std::int32_t map_in_64s(const MapSlotsCall& call, std::int32_t position) {
  return map_in(call, position, 64);
}
std::int32_t pass_through(const MapSlotsCall&, std::int32_t position) { return position; }

}  // namespace

void run(const MapSlotsKernel& kernel, const MapSlotsCall& call) {
  for (std::int64_t i = 0; i < call.problem.count; ++i)
    call.tensors.slots[i] = kernel.map(call, call.tensors.positions[i]);
}

std::span<const MapSlotsKernel> map_slots_kernels() {
  static constexpr MapSlotsKernel kKernels[] = {
      {.label = {"honest_map_slots", "nothing is", ""}, .map = map_honestly},
      {.label = {"absent_is_mapped", "position -1 is mapped like 0",
                 "sglang #30645 (slot of -1 reaches FA3)"},
       .map = map_absent_to_0},
      {.label = {"clamped_into_block_0", "a position past the table is mapped like 0",
                 "vllm #53906, #54359"},
       .map = clamp_to_table},
      {.label = {"blocks_of_64", "64 slots a block, whatever is asked", "vllm #53963"},
       .map = map_in_64s},
      {.label = {"positions_as_slots", "logical positions are taken for slots", "vllm #53906"},
       .map = pass_through},
  };
  return kKernels;
}

}  // namespace mlacheck::museum
