#include "reference/formats/e8m0.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mlacheck {
namespace {

static_assert(to_float(E8m0{127}) == 1.0f);
static_assert(to_e8m0_up(1.5f).bits == 128);
static_assert(to_e8m0_toward_zero(1.5f).bits == 127);

TEST(E8m0, EveryCodeDecodesAndSurvivesARoundTrip) {
  for (int code = 0; code < 0xff; ++code) {
    const E8m0 x{static_cast<std::uint8_t>(code)};
    ASSERT_EQ(static_cast<double>(to_float(x)), std::ldexp(1.0, code - 127)) << code;
    ASSERT_EQ(to_e8m0_toward_zero(to_float(x)), x);
    ASSERT_EQ(to_e8m0_up(to_float(x)), x);
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to_float(E8m0{0xff})), 0x7fffffffu);
  EXPECT_EQ(to_e8m0_toward_zero(-std::nanf("")).bits, 0xff);
  EXPECT_EQ(to_e8m0_up(std::nanf("")).bits, 0xff);
}

// Every sign and exponent, with fractions about zero, about one half (2^-127 among the subnormals)
// and at the end.
TEST(E8m0, RoundsBothWaysLikeALinearSearch) {
  std::vector<std::uint32_t> fractions;
  for (std::uint32_t centre : {0u, 0x400000u, 0x7ffffdu})
    for (std::uint32_t step = 0; step < 3; ++step) {
      fractions.push_back(centre + step);
      fractions.push_back((centre - step) & 0x7fffffu);
    }
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (std::uint32_t fraction : fractions) {
      const auto x = std::bit_cast<float>(sign_and_exponent << 23 | fraction);
      if (std::isnan(x)) continue;
      int below = 0, above = 0;
      while (below < 254 && std::ldexp(1.0, below + 1 - 127) <= std::fabs(static_cast<double>(x)))
        ++below;
      while (above < 254 && std::ldexp(1.0, above - 127) < std::fabs(static_cast<double>(x)))
        ++above;
      ASSERT_EQ(int{to_e8m0_toward_zero(x).bits}, below) << x;
      ASSERT_EQ(int{to_e8m0_up(x).bits}, above) << x;
    }
}

}  // namespace
}  // namespace mlacheck
