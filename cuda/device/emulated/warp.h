#pragma once

#include <bit>
#include <cstdint>

#include "cuda/emulator/primitives.h"

namespace mlacheck::device {

inline void sync_warp(emulator::Site site) { emulator::sync_warp(site); }

template <class T>
inline T shuffle(T value, unsigned from_lane, emulator::Site site) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(emulator::shuffle(std::bit_cast<std::uint32_t>(value), from_lane, site));
}
template <class T>
inline T shuffle_xor(T value, unsigned lane_mask, emulator::Site site) {
  return shuffle(value, emulator::current_lane->index ^ lane_mask, site);
}

inline unsigned ballot(bool condition, emulator::Site site) {
  return emulator::ballot(condition, site);
}
inline bool any(bool condition, emulator::Site site) {
  return emulator::ballot(condition, site) != 0;
}

}  // namespace mlacheck::device
