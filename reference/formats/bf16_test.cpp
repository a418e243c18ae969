#include "reference/formats/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/formats/slow_float.h"

namespace mlacheck {
namespace {

static_assert(to_bf16(1.0f).bits == 0x3f80);
static_assert(to_float(Bf16{0xc000}) == -2.0f);

TEST(Bf16, EveryCodeDecodes) {
  const SlowFloat slow = slow_bf16();
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const float x = to_float(Bf16{static_cast<std::uint16_t>(code)});
    const std::uint32_t magnitude = code & 0x7fffu;
    if (magnitude > 0x7f80) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0x7fffffffu) << code;
      continue;
    }
    const double expected =
        magnitude == 0x7f80 ? std::numeric_limits<double>::infinity() : slow.decode(magnitude);
    ASSERT_EQ(std::fabs(static_cast<double>(x)), expected) << code;
    ASSERT_EQ(std::signbit(x), code >= 0x8000) << code;
  }
}

TEST(Bf16, EveryCodeSurvivesARoundTrip) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const Bf16 x{static_cast<std::uint16_t>(code)};
    const bool nan = (code & 0x7fffu) > 0x7f80u;
    ASSERT_EQ(to_bf16(to_float(x)).bits, nan ? 0x7fffu : code);
  }
}

TEST(Bf16, TiesGoToEven) {
  EXPECT_EQ(to_bf16(0x1.01p0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(0x1.03p0f).bits, 0x3f82);
  EXPECT_EQ(to_bf16(-0x1.010002p0f).bits, 0xbf81);
}

TEST(Bf16, OverflowAndNan) {
  EXPECT_EQ(to_bf16(0x1.fefffep127f).bits, 0x7f7f);
  EXPECT_EQ(to_bf16(0x1.ffp127f).bits, 0x7f80);  // the middle between the last finite and 2^128
  // A NaN whose payload lies below the cut must not become an infinity.
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0xff800001u)).bits, 0x7fff);
}

}  // namespace
}  // namespace mlacheck
