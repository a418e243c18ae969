#pragma once

#include <algorithm>

namespace mlacheck::device {

inline std::uint32_t sum_to_lane(std::uint32_t own, emulator::Site site) {
  const std::uint32_t lane = emulator::current_lane->index;
  std::uint32_t sum = own;
  for (std::uint32_t distance = 1; distance < kWarpSize; distance *= 2) {
    const std::uint32_t other = emulator::shuffle(sum, lane - distance, site);
    if (lane >= distance) sum += other;
  }
  return sum;
}

inline std::uint32_t maximum_of_lanes(std::uint32_t own, emulator::Site site) {
  const std::uint32_t lane = emulator::current_lane->index;
  std::uint32_t largest = own;
  for (std::uint32_t distance = 1; distance < kWarpSize; distance *= 2)
    largest = std::max(largest, emulator::shuffle(largest, lane ^ distance, site));
  return largest;
}

}  // namespace mlacheck::device
