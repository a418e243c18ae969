// Sums over the lanes of a warp, and bits of words.
#include "cuda/device/scan.h"

#include "cuda/device/bits.h"
#include "cuda/emulator/kernel_testing.h"

namespace mlacheck::kernel_testing {
namespace {

TEST(Scan, SumsToEachLane) {
  const auto out = out_of(
      [](Arguments a) {
        const unsigned t = thread_index();
        store(a.out + t, static_cast<float>(sum_to_lane(t % 7 + 1)));
      },
      shape_of(64));
  for (unsigned warp = 0; warp < 2; ++warp) {
    unsigned sum = 0;
    for (unsigned t = 32 * warp; t < 32 * warp + 32; ++t) {
      sum += t % 7 + 1;
      EXPECT_EQ(out[t], static_cast<float>(sum));
    }
  }
}

TEST(Scan, FindsTheLargestOfAWarp) {
  const auto out = out_of(
      [](Arguments a) {
        const unsigned t = thread_index();
        store(a.out + t, static_cast<float>(maximum_of_lanes(t * 13 % 64)));
      },
      shape_of(64));
  for (unsigned warp = 0; warp < 2; ++warp) {
    unsigned largest = 0;
    for (unsigned t = 32 * warp; t < 32 * warp + 32; ++t) largest = std::max(largest, t * 13 % 64);
    for (unsigned t = 32 * warp; t < 32 * warp + 32; ++t)
      EXPECT_EQ(out[t], static_cast<float>(largest));
  }
}

TEST(Scan, IsACollective) {
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() < 16) sum_to_lane(1);
      },
      shape_of(32));
}

TEST(Bits, OfWords) {
  EXPECT_EQ(count_ones(0u), 0);
  EXPECT_EQ(count_ones(0x80000001u), 2);
  EXPECT_EQ(lowest_one(1u), 0);
  EXPECT_EQ(lowest_one(0xa0000000u), 29);
  EXPECT_EQ(device::bit_width(0u), 0);
  EXPECT_EQ(device::bit_width(1u), 1);
  EXPECT_EQ(device::bit_width(0x80000000u), 32);
}

}  // namespace
}  // namespace mlacheck::kernel_testing
