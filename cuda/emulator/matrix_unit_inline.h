#pragma once

#include "cuda/emulator/block.h"

namespace mlacheck::emulator {

[[gnu::always_inline]] inline std::uint32_t* MatrixUnit::record(
    Lane& lane, MatrixOperation operation, std::uint32_t c, std::uint32_t a, std::uint32_t b,
    std::uint32_t words, const Site& site) {
  const std::uint64_t wanted = key(operation, c, a, b, site);
  const std::uint32_t position = lane.recorded;
  if (keys_[position] != wanted) [[unlikely]]
    return record_first(lane, wanted, words, site);
  ++lane.recorded;
  return &word_[first_word_[position]][lane.index];
}

}  // namespace mlacheck::emulator
