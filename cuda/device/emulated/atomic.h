#pragma once

#include <algorithm>

#include "cuda/emulator/primitives.h"

namespace mlacheck::device {

inline std::uint32_t atomic_add(SharedPointer<std::uint32_t> at, std::uint32_t value,
                                emulator::Site site) {
  return emulator::update_shared(
      at.address, [&](std::uint32_t old) { return old + value; }, site);
}

inline void atomic_maximum(SharedPointer<std::uint32_t> at, std::uint32_t value,
                           emulator::Site site) {
  emulator::update_shared(
      at.address, [&](std::uint32_t old) { return std::max(old, value); }, site);
}

}  // namespace mlacheck::device
