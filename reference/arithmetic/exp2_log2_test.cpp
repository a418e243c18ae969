#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/function_error.h"
#include "reference/arithmetic/log2.h"

namespace mlacheck {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(Exp2, EveryFloatHasAnAnswer) {
  for (const float nan :
       {kNaN, -kNaN, std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffffffffu)})
    EXPECT_EQ(bits(exp2_f32(nan)), 0x7fffffffu);
  EXPECT_EQ(exp2_f32(kInf), kInf);
  EXPECT_EQ(exp2_f32(128), kInf);
  EXPECT_LT(exp2_f32(std::nextafter(128.0f, 0.0f)), kInf);
  EXPECT_EQ(exp2_f32(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(bits(exp2_f32(-kInf)), 0u);
  EXPECT_EQ(bits(exp2_f32(std::numeric_limits<float>::lowest())), 0u);
  EXPECT_EQ(bits(exp2_f32(std::nextafter(-126.0f, -kInf))), 0u);
  EXPECT_EQ(exp2_f32(-126), 0x1p-126f);
  for (const float tiny : {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-26f, -0x1p-26f})
    EXPECT_EQ(exp2_f32(tiny), 1.0f);
}

TEST(Exp2, ExactAtIntegers) {
  for (int n = -126; n < 128; ++n)
    EXPECT_EQ(exp2_f32(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
}

// A softmax weight never exceeds 1.
TEST(Exp2, AtMostOneBelowZero) {
  for (std::uint32_t x = bits(-0x1p-30f); x < bits(-0x1p-10f); x += 101)
    ASSERT_LE(exp2_f32(std::bit_cast<float>(x)), 1.0f) << std::bit_cast<float>(x);
}

// The error repeats from binade to binade; this is a stride over all of them.
TEST(Exp2, ErrorWithinItsStatement) {
  EXPECT_LE(worst_error(exp2_f32, mpfr_exp2, 1, bits(128), 20011).ulps, kExp2Ulps);
  EXPECT_LE(worst_error(exp2_f32, mpfr_exp2, bits(-0.0f) + 1, bits(-126) + 1, 20011).ulps,
            kExp2Ulps);
}

TEST(WorstError, DoesNotForgetANan) {
  const float at = std::bit_cast<float>(bits(1) + 77);
  const auto nan_once = [=](float x) { return x == at ? kNaN : exp2_f32(x); };
  const WorstError worst = worst_error(nan_once, mpfr_exp2, bits(1), bits(1) + 1000);
  EXPECT_EQ(worst.ulps, static_cast<double>(kInf));
  EXPECT_EQ(worst.at, at);
}

TEST(Exp2, AWorsePolynomialShows) {
  const auto square_term_off = [](float x) {
    const float f = x - std::floor(x + 0.5f);
    return exp2_f32(x) * (1 + 0x1p-21f * f * f);
  };
  EXPECT_GT(worst_error(square_term_off, mpfr_exp2, bits(0.25f), bits(4), 20011).ulps, kExp2Ulps);
}

TEST(Log2, EveryFloatHasAnAnswer) {
  EXPECT_EQ(log2_f32(0.0f), -kInf);
  EXPECT_EQ(log2_f32(-0.0f), -kInf);
  EXPECT_EQ(log2_f32(kInf), kInf);
  for (const float bad : {kNaN, -kNaN, -kInf, -1.0f, -0x1p-149f, std::bit_cast<float>(0x7f800001u)})
    EXPECT_EQ(bits(log2_f32(bad)), 0x7fffffffu) << bad;
  EXPECT_EQ(bits(log2_f32(1)), 0u);
  EXPECT_EQ(log2_f32(std::numeric_limits<float>::max()), 128.0f);
}

TEST(Log2, ExactAtPowersOfTwo) {
  for (int n = -149; n < 128; ++n)
    EXPECT_EQ(log2_f32(std::ldexp(1.0f, n)), static_cast<float>(n)) << n;
}

TEST(Log2, ErrorWithinItsStatement) {
  EXPECT_LE(worst_error(log2_f32, mpfr_log2, 3, bits(1), 20011).ulps, kLog2Ulps);
  EXPECT_LE(worst_error(log2_f32, mpfr_log2, bits(1) + 1, bits(kInf), 20011).ulps, kLog2Ulps);
}

// Where the result is near 0 it is still a relative error.
TEST(Log2, ErrorNearOne) {
  EXPECT_LE(worst_error(log2_f32, mpfr_log2, bits(1) - 50000, bits(1)).ulps, kLog2Ulps);
  EXPECT_LE(worst_error(log2_f32, mpfr_log2, bits(1) + 1, bits(1) + 50000).ulps, kLog2Ulps);
}

TEST(Log2, AWorsePolynomialShows) {
  const auto one_ulp_off = [](float x) { return log2_f32(x) * (1 + 0x1p-23f); };
  EXPECT_GT(worst_error(one_ulp_off, mpfr_log2, bits(1.25f), bits(4), 20011).ulps, kLog2Ulps);
}

}  // namespace
}  // namespace mlacheck
