#pragma once

#include "cuda/emulator/launch.h"
#include "cuda/emulator/primitives.h"

namespace mlacheck::device {

inline unsigned thread_index() { return emulator::current_lane->thread(); }
inline unsigned lane_index(emulator::Site site) {
  emulator::pass(site);
  return emulator::current_lane->index;
}
inline unsigned warp_index(emulator::Site site) {
  emulator::pass(site);
  return emulator::current_lane->warp->index;
}
inline unsigned block_index() { return emulator::current_lane->warp->block->index; }
inline unsigned block_index_y() { return emulator::current_lane->warp->block->index_y; }
inline unsigned grid_blocks() { return emulator::current_lane->warp->block->launch->blocks; }

inline void wait_for_previous_kernel(emulator::Site site) {
  emulator::wait_for_previous_kernel(site);
}
// The emulator runs kernels one after the other.
inline void let_next_kernel_start(emulator::Site) {}

template <unsigned Registers>
inline void take_registers(emulator::Site site) {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
  emulator::change_registers(Registers, true, site);
}
template <unsigned Registers>
inline void give_registers(emulator::Site site) {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
  emulator::change_registers(Registers, false, site);
}

inline unsigned anew(unsigned value) { return value; }

}  // namespace mlacheck::device
