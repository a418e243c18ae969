// By hand, about a quarter of an hour on two cores:
//   MLACHECK_MANUAL=1 ctest -L manual -R exp2_log2_exhaustive
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/function_error.h"
#include "reference/arithmetic/log2.h"

namespace mlacheck {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

class Exhaustive : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("MLACHECK_MANUAL") == nullptr) GTEST_SKIP() << "MLACHECK_MANUAL=1 is not set";
  }
};

TEST_F(Exhaustive, Exp2) {
  // Nearer to 0 than 2^-25 the correctly rounded result is 1.
  for (std::uint32_t x = 0; x < bits(0x1p-25f); ++x) {
    ASSERT_EQ(exp2_f32(std::bit_cast<float>(x)), 1.0f) << std::bit_cast<float>(x);
    ASSERT_EQ(exp2_f32(std::bit_cast<float>(x | kSign)), 1.0f) << -std::bit_cast<float>(x);
  }
  const WorstError positive = worst_error(exp2_f32, mpfr_exp2, bits(0x1p-25f), bits(128));
  const WorstError negative = worst_error(exp2_f32, mpfr_exp2, bits(-0x1p-25f), bits(-126.0f) + 1);
  std::cout << "exp2_f32: " << positive.ulps << " ulp at " << positive.at << ", " << negative.ulps
            << " ulp at " << negative.at << "\n";
  EXPECT_LE(std::max(positive.ulps, negative.ulps), kExp2MaxUlps);
}

TEST_F(Exhaustive, Log2) {
  const WorstError below = worst_error(log2_f32, mpfr_log2, bits(0x1p-32f), bits(1));
  const WorstError above = worst_error(log2_f32, mpfr_log2, bits(1) + 1, bits(0x1p32f) + 1);
  std::cout << "log2_f32: " << below.ulps << " ulp at " << below.at << ", " << above.ulps
            << " ulp at " << above.at << "\n";
  EXPECT_LE(std::max(below.ulps, above.ulps), kLog2MaxUlps);
}

}  // namespace
}  // namespace mlacheck
