#include "reference/formats/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/formats/slow_float.h"

namespace mlacheck {
namespace {

static_assert(to_f16(1.0f).bits == 0x3c00);
static_assert(to_float(F16{0xc000}) == -2.0f);

TEST(F16, EveryCodeDecodes) {
  const SlowFloat slow = slow_f16();
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const float x = to_float(F16{static_cast<std::uint16_t>(code)});
    const std::uint32_t magnitude = code & 0x7fffu;
    if (magnitude > 0x7c00) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0x7fffffffu) << code;
      continue;
    }
    const double expected =
        magnitude == 0x7c00 ? std::numeric_limits<double>::infinity() : slow.decode(magnitude);
    ASSERT_EQ(std::fabs(static_cast<double>(x)), expected) << code;
    ASSERT_EQ(std::signbit(x), code >= 0x8000) << code;
  }
}

TEST(F16, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const F16 x{static_cast<std::uint16_t>(code)};
    const bool nan = (code & 0x7fffu) > 0x7c00u;
    ASSERT_EQ(to_f16(to_float(x)).bits, nan ? 0x7fffu : code);
  }
}

TEST(F16, Overflow) {
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.0f).bits, 0x7c00);  // the middle between 65504 and 2^16: to even
  EXPECT_EQ(to_f16(-65520.0f).bits, 0xfc00);
}

TEST(F16, Underflow) {
  EXPECT_EQ(to_f16(0x1p-25f).bits, 0x0000);  // the middle between 0 and 2^-24: to even
  EXPECT_EQ(to_f16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(to_f16(-0x1p-149f).bits, 0x8000);
  EXPECT_EQ(to_f16(0x1.ffcp-15f).bits, 0x0400);  // the middle below the first normal
}

}  // namespace
}  // namespace mlacheck
