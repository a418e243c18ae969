#include "reference/operators/map_slots.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace mlacheck {
namespace {

using Slots = std::vector<std::int32_t>;
constexpr std::int32_t kIntMin = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kIntMax = std::numeric_limits<std::int32_t>::max();

Slots mapped(const Slots& positions, const Slots& block_table, std::int64_t block_size) {
  Slots slots(positions.size(), 99);
  map_slots(positions, block_table, block_size, slots);
  return slots;
}

TEST(MapSlots, FollowsTheTable) {
  EXPECT_EQ(mapped({0, 3, 4, 7, 8, 11}, {5, 0, 2}, 4), (Slots{20, 23, 0, 3, 8, 11}));
  EXPECT_NE(mapped({4}, {5, 0, 2}, 4), mapped({4}, {5, 1, 2}, 4));
  EXPECT_EQ(mapped({0, 1, 2}, {7, 6, 9}, 1), (Slots{7, 6, 9}));
}

TEST(MapSlots, WhatIsNowhereIsMinusOne) {
  EXPECT_EQ(mapped({-1, kIntMin, 12, kIntMax}, {5, 0, 2}, 4), (Slots{-1, -1, -1, -1}));
  EXPECT_EQ(mapped({0, 4, 8}, {1, -1, kIntMin}, 4), (Slots{4, -1, -1}));
  EXPECT_EQ(mapped({0}, {}, 64), Slots{-1});
  EXPECT_EQ(mapped({}, {}, 64), Slots{});
}

TEST(MapSlots, RefusesWhatIsNoSlot) {
  EXPECT_EQ(mapped({63}, {kIntMax / 64}, 64), Slots{kIntMax});
  EXPECT_THROW(mapped({0}, {kIntMax / 64 + 1}, 64), std::invalid_argument);
  EXPECT_EQ(mapped({7}, {kIntMax / 10}, 10), Slots{kIntMax});
  EXPECT_THROW(mapped({8}, {kIntMax / 10}, 10), std::invalid_argument);
  EXPECT_THROW(mapped({0}, {kIntMax}, 64), std::invalid_argument);
  EXPECT_THROW(mapped({0}, {0}, 0), std::invalid_argument);
  Slots two(2);
  EXPECT_THROW(map_slots(Slots{0}, Slots{0}, 64, two), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
