#include "cuda/emulator/vector_clock.h"

#include <gtest/gtest.h>

#include "cuda/emulator/interval_set.h"

namespace mlacheck::emulator {
namespace {

TEST(VectorClock, CoversWhatAllLanesOrThisLaneDid) {
  VectorClock clock;
  clock.all[3] = 5;
  clock.add_lanes(3, 1u << 7, 8);
  EXPECT_TRUE(clock.covers(3, Stamp::of(5, kSeveralLanes)));
  EXPECT_TRUE(clock.covers(3, Stamp::of(8, 7)));
  EXPECT_FALSE(clock.covers(3, Stamp::of(9, 7)));
  EXPECT_FALSE(clock.covers(3, Stamp::of(6, 8)));
  EXPECT_FALSE(clock.covers(3, Stamp::of(6, kSeveralLanes)));
  EXPECT_FALSE(clock.covers(2, Stamp::of(1, 7)));
}

TEST(VectorClock, AllLanesTogetherAreTheWarp) {
  VectorClock joined;
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_FALSE(joined.covers(1, Stamp::of(4, kSeveralLanes)));
    VectorClock one;
    one.add_lanes(1, 1u << lane, 4);
    joined.join(one);
  }
  EXPECT_TRUE(joined.covers(1, Stamp::of(4, kSeveralLanes)));
  EXPECT_EQ(joined.partial, 0u);
}

TEST(VectorClock, JoinTakesTheLaterOfEach) {
  VectorClock a, b;
  a.all[0] = 3;
  b.all[0] = 2;
  b.all[kFirstBarrierAgent] = 1;
  a.join(b);
  EXPECT_EQ(a.all[0], 3);
  EXPECT_EQ(a.all[kFirstBarrierAgent], 1);
}

TEST(IntervalSet, ContainsAndOverlaps) {
  IntervalSet set;
  set.insert({{30, 40}, {10, 20}, {20, 25}});
  EXPECT_TRUE(set.contains({10, 25}));
  EXPECT_FALSE(set.contains({10, 26}));
  EXPECT_FALSE(set.contains({9, 12}));
  EXPECT_TRUE(set.contains({39, 40}));
  EXPECT_TRUE(set.overlaps({24, 31}));
  EXPECT_FALSE(set.overlaps({25, 30}));
  EXPECT_FALSE(set.overlaps({40, 50}));
  set.insert({{24, 31}});
  EXPECT_TRUE(set.contains({10, 40}));
  set.erase({15, 35});
  EXPECT_TRUE(set.contains({10, 15}));
  EXPECT_TRUE(set.contains({35, 40}));
  EXPECT_FALSE(set.overlaps({15, 35}));
  set.clear();
  EXPECT_FALSE(set.overlaps({0, 100}));
}

}  // namespace
}  // namespace mlacheck::emulator
