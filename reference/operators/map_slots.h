#pragma once

#include <cstdint>
#include <span>

namespace mlacheck {

// Logical positions of one request to physical slots:
//   slot = block_table[position / block_size] * block_size + position % block_size
// A negative position, one past the table, or one on a negative table entry gives -1.
// Throws std::invalid_argument when sizes differ, block_size < 1, or a slot is no int32.
void map_slots(std::span<const std::int32_t> positions, std::span<const std::int32_t> block_table,
               std::int64_t block_size, std::span<std::int32_t> slots);

}  // namespace mlacheck
