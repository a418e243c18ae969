#pragma once

#include <bit>

namespace mlacheck::device {

inline int count_ones(std::uint32_t word) { return std::popcount(word); }
inline int lowest_one(std::uint32_t word) { return std::countr_zero(word); }
inline int bit_width(std::uint32_t word) { return static_cast<int>(std::bit_width(word)); }

}  // namespace mlacheck::device
