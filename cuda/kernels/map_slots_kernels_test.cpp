#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "cuda/emulator/session.h"
#include "cuda/kernels/map_slots_launch.h"
#include "reference/operators/map_slots.h"

// The kernel against the reference, and wrong ones, which the comparison or the emulator must
// catch.
namespace mlacheck::kernels {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kUnwritten = -2;

// Rows of positions of three requests, more than a block's threads have; entries of the table that
// are absent, and slots up to the largest there is.
struct Mapping {
  static constexpr std::int64_t kRows = 5, kColumns = 300, kBlocks = 9, kStride = 11, kSize = 16;

  Mapping() : positions(kRows * kColumns), table(3 * kStride, 3) {
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions[i] = static_cast<std::int32_t>(i * 7919 % (kBlocks * kSize));
    positions[0] = positions[777] = -1;
    positions[1] = std::numeric_limits<std::int32_t>::min();
    positions[2] = kBlocks * kSize;  // past the table
    positions[3] = kMost;
    positions[4] = kBlocks * kSize - 1;
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t b = 0; b < kBlocks; ++b)
        table[r * kStride + b] = static_cast<std::int32_t>((r * 31 + b * 5) % 40);
    table[2 * kStride + 4] = -1;
    table[8] = kMost / kSize;
  }

  MapSlotsArguments arguments(std::int32_t* slots) const {
    MapSlotsArguments a = {};
    a.positions = positions.data();
    a.slots = slots;
    a.columns = device::Divisor(kColumns);
    a.count = static_cast<std::uint32_t>(positions.size());
    a.block_table = table.data();
    a.stride = kStride;
    a.blocks = kBlocks;
    a.request = request.data();
    a.block_size = device::Divisor(kSize);
    return a;
  }

  // Whether `change` makes of the kernel one that the emulator or the comparison finds fault with.
  template <class Change>
  bool is_noticed(Change change) const {
    std::vector<std::int32_t> slots(positions.size(), kUnwritten);
    MapSlotsArguments a = arguments(slots.data());
    change(a);
    emulator::Session session;
    const auto declare = [&](const char* name, const auto& values, emulator::Access access) {
      session.declare_memory(name, values.data(), values.size() * 4, access);
    };
    declare("positions", positions, emulator::Access::read);
    declare("table", table, emulator::Access::read);
    declare("request", request, emulator::Access::read);
    declare("slots", slots, emulator::Access::write);
    device::Stream stream(&session);
    try {
      launch_map_slots(stream, a);
    } catch (const std::runtime_error&) {
      return true;
    }
    return slots != expected();
  }

  std::vector<std::int32_t> expected() const {
    std::vector<std::int32_t> slots(positions.size());
    for (std::size_t row = 0; row < kRows; ++row)
      mlacheck::map_slots({positions.data() + row * kColumns, kColumns},
                          {table.data() + request[row] * kStride, kBlocks}, kSize,
                          {slots.data() + row * kColumns, kColumns});
    return slots;
  }

  std::vector<std::int32_t> positions, table;
  std::vector<std::int32_t> request = {0, 2, 1, 2, 0};
};

void right(MapSlotsArguments&) {}

TEST(MapSlotsKernel, MapsEachRowThroughItsTable) {
  Mapping mapping;
  EXPECT_FALSE(mapping.is_noticed(right));
  mapping.request.assign(5, 0);
  EXPECT_FALSE(mapping.is_noticed([](MapSlotsArguments& a) { a.request = nullptr; }));
}

TEST(MapSlotsKernel, MapsInPlace) {
  Mapping mapping;
  const std::vector<std::int32_t> expected = mapping.expected();
  emulator::Session session;
  session.declare_memory("positions", mapping.positions.data(), mapping.positions.size() * 4,
                         emulator::Access::read_write);
  session.declare_memory("table", mapping.table.data(), mapping.table.size() * 4,
                         emulator::Access::read);
  session.declare_memory("request", mapping.request.data(), 20, emulator::Access::read);
  device::Stream stream(&session);
  launch_map_slots(stream, mapping.arguments(mapping.positions.data()));
  EXPECT_EQ(mapping.positions, expected);
}

// That one which does not wait for its positions is noticed: index_select_mutant_test.cpp.
TEST(MapSlotsMutants, AreNoticed) {
  const Mapping mapping;
  using A = MapSlotsArguments;
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.request = nullptr; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.stride = a.blocks; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.blocks -= 1; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.blocks = 3 * Mapping::kStride; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.count -= 1; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.count += 1; }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.columns = device::Divisor(299); }));
  EXPECT_TRUE(mapping.is_noticed([](A& a) { a.block_size = device::Divisor(15); }));
}

}  // namespace
}  // namespace mlacheck::kernels
