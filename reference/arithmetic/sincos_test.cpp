#include "reference/arithmetic/sincos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>

#include "reference/arithmetic/mpfr_number.h"
#include "reference/arithmetic/pow.h"

namespace mlacheck {
namespace {

constexpr double kMaxUlps = 0.8;  // stated in sincos.h

struct Exact {
  explicit Exact(double angle) {
    const MpfrNumber x(angle);
    mpfr_sin_cos(sin.get(), cos.get(), x.get(), MPFR_RNDN);
  }

  // The larger of the two errors, in ulp (fp64).
  double ulps_from(SinCosF64 computed) const {
    return std::max(sin.ulps_from(computed.sin, 53), cos.ulps_from(computed.cos, 53));
  }

  MpfrNumber sin, cos;
};

void expect_accurate(float angle) {
  const Exact exact(static_cast<double>(angle));
  ASSERT_LE(exact.ulps_from(sincos_f64(static_cast<double>(angle))), kMaxUlps) << angle;
  const SinCos rounded = sincos_f32(angle);
  ASSERT_EQ(rounded.sin, exact.sin.to_float()) << angle;
  ASSERT_EQ(rounded.cos, exact.cos.to_float()) << angle;
}

TEST(SinCos, AllMagnitudesOfFp32Angles) {
  for (std::uint32_t x = 1; x <= std::bit_cast<std::uint32_t>(0x1p31f); x += 10007) {
    expect_accurate(std::bit_cast<float>(x));
    expect_accurate(-std::bit_cast<float>(x));
  }
}

// Angles of real tables: any position of a million, any of the 32 frequencies.
TEST(SinCos, RopeAngles) {
  std::mt19937 random(1);
  for (const double theta : {1e4, 1e6, 8e6})
    for (int i = 0; i < 20000; ++i) {
      const auto position = static_cast<float>(random() % (1u << 20));
      expect_accurate(position * static_cast<float>(
                                     pow_f64(theta, -2.0 * static_cast<int>(random() % 32) / 64)));
    }
}

// Where the reduction cancels most.
TEST(SinCos, NearMultiplesOfHalfPi) {
  std::mt19937 random(2);
  for (int i = 0; i < 50000; ++i) {
    const auto multiple = 1 + static_cast<std::int32_t>(random() >> 2 >> random() % 30);
    expect_accurate(static_cast<float>(multiple * 0x1.921fb54442d18p+0));
  }
}

TEST(SinCos, Zero) {
  EXPECT_EQ(sincos_f64(0).sin, 0);
  EXPECT_EQ(sincos_f64(0).cos, 1);
}

TEST(SinCos, RefusesWhatItCannotReduce) {
  EXPECT_NO_THROW(sincos_f64(-0x1p31));
  for (const double angle : {0x1.0000000000001p31, -1e300, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(sincos_f64(angle), std::invalid_argument) << angle;
}

// A reduction by pi/2 in fp64 alone, as one might write it, is found out.
TEST(SinCos, AShortPiShows) {
  const double angle = 1e6, half_pi = 0x1.921fb54442d18p+0;
  const double k = std::nearbyint(angle / half_pi / 4) * 4;
  EXPECT_GT(Exact(angle).ulps_from(sincos_f64(angle - k * half_pi)), 1e3);
}

}  // namespace
}  // namespace mlacheck
