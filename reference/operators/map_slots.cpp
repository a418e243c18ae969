#include "reference/operators/map_slots.h"

#include <limits>

#include "reference/operators/require.h"

namespace mlacheck {
namespace {

constexpr std::int64_t kMaxSlot = std::numeric_limits<std::int32_t>::max();

}  // namespace

void map_slots(std::span<const std::int32_t> positions, std::span<const std::int32_t> block_table,
               std::int64_t block_size, std::span<std::int32_t> slots) {
  detail::require(slots.size() == positions.size(), "slots: expected {} elements, got {}",
                  positions.size(), slots.size());
  detail::require(block_size >= 1, "block_size: expected >= 1, got {}", block_size);
  const auto blocks = static_cast<std::int64_t>(block_table.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t position = positions[i];
    slots[i] = -1;
    if (position < 0 || position / block_size >= blocks) continue;
    const std::int64_t block = block_table[static_cast<std::size_t>(position / block_size)];
    if (block < 0) continue;
    detail::require(block <= (kMaxSlot - position % block_size) / block_size,
                    "block_table[{}]: expected slots below 2^31, got block {} of {} rows",
                    position / block_size, block, block_size);
    slots[i] = static_cast<std::int32_t>(block * block_size + position % block_size);
  }
}

}  // namespace mlacheck
