#include "reference/formats/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/formats/slow_float.h"

namespace mlacheck {
namespace {

static_assert(to_e4m3(1.0f).bits == 0x38);
static_assert(to_float(E4m3{0xfe}) == -448.0f);

TEST(E4m3, EveryCodeDecodes) {
  const SlowFloat slow = slow_e4m3();
  for (std::uint32_t code = 0; code < 0x100; ++code) {
    const float x = to_float(E4m3{static_cast<std::uint8_t>(code)});
    const std::uint32_t magnitude = code & 0x7fu;
    if (magnitude == 0x7f) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0x7fffffffu) << code;
      continue;
    }
    ASSERT_EQ(std::fabs(static_cast<double>(x)), slow.decode(magnitude)) << code;
    ASSERT_EQ(std::signbit(x), code >= 0x80) << code;
  }
}

TEST(E4m3, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t code = 0; code < 0x100; ++code) {
    const E4m3 x{static_cast<std::uint8_t>(code)};
    const std::uint32_t expected = (code & 0x7fu) == 0x7f ? 0x7fu : code;
    ASSERT_EQ(to_e4m3(to_float(x)).bits, expected);
    ASSERT_EQ(to_e4m3_saturating(to_float(x)).bits, expected);
  }
}

TEST(E4m3, OverflowBeginsAbove464) {
  const float above = std::nextafterf(464.0f, 500.0f);
  EXPECT_EQ(to_e4m3(464.0f).bits, 0x7e);
  EXPECT_EQ(to_e4m3(above).bits, 0x7f);
  EXPECT_EQ(to_e4m3(-above).bits, 0xff);
  EXPECT_EQ(to_e4m3_saturating(above).bits, 0x7e);
  EXPECT_EQ(to_e4m3_saturating(-HUGE_VALF).bits, 0xfe);
  EXPECT_EQ(to_e4m3(HUGE_VALF).bits, 0x7f);
}

TEST(E4m3, NanIsPositive) {
  EXPECT_EQ(to_e4m3(-std::nanf("")).bits, 0x7f);
  EXPECT_EQ(to_e4m3_saturating(-std::nanf("")).bits, 0x7f);
}

TEST(E4m3, Underflow) {
  EXPECT_EQ(to_e4m3(0x1p-10f).bits, 0x00);  // the middle between 0 and 2^-9: to even
  EXPECT_EQ(to_e4m3(0x1.8p-9f).bits, 0x02);
  EXPECT_EQ(to_e4m3(-0x1p-20f).bits, 0x80);
  EXPECT_EQ(to_e4m3(0x1.ep-7f).bits, 0x08);  // the middle below the first normal
}

}  // namespace
}  // namespace mlacheck
