#include "reference/arithmetic/pow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "reference/arithmetic/mpfr_number.h"

namespace mlacheck {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double exact_pow(double base, double exponent) {
  const MpfrNumber b(base), e(exponent);
  MpfrNumber power;
  mpfr_pow(power.get(), b.get(), e.get(), MPFR_RNDN);
  return power.to_double();
}

double exact_log(double x) {
  const MpfrNumber wide(x);
  MpfrNumber log;
  mpfr_log(log.get(), wide.get(), MPFR_RNDN);
  return log.to_double();
}

TEST(Pow, InverseFrequenciesAreCorrectlyRounded) {
  for (const double theta : {1e4, 5e5, 1e6, 8e6})
    for (const int dim : {2, 20, 64, 126, 128})
      for (int i = 0; i < dim; i += 2)
        EXPECT_EQ(pow_f64(theta, -static_cast<double>(i) / dim),
                  exact_pow(theta, -static_cast<double>(i) / dim))
            << theta << ", " << i << " of " << dim;
}

TEST(Pow, OtherPowersAreCorrectlyRounded) {
  std::mt19937_64 random(1);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int i = 0; i < 20000; ++i) {
    const double base = std::ldexp(0.5 + unit(), static_cast<int>(random() % 120) - 60);
    const double exponent = 32 * unit() - 16;
    ASSERT_EQ(pow_f64(base, exponent), exact_pow(base, exponent)) << base << "^" << exponent;
    const double near_one = 1 + (unit() - 0.5) * 0x1p-20;
    ASSERT_EQ(pow_f64(near_one, exponent), exact_pow(near_one, exponent))
        << near_one << "^" << exponent;
    ASSERT_EQ(log_f64(base), exact_log(base)) << base;
    ASSERT_EQ(log_f64(near_one), exact_log(near_one)) << near_one;
  }
}

TEST(Pow, ExactCases) {
  EXPECT_EQ(pow_f64(1e6, 0), 1);
  EXPECT_EQ(pow_f64(1, 123.456), 1);
  EXPECT_EQ(pow_f64(1e6, -0.5), 1e-3);
  EXPECT_EQ(pow_f64(2, 1000), 0x1p1000);
  EXPECT_EQ(pow_f64(2, -1000), 0x1p-1000);
  EXPECT_EQ(log_f64(1), 0);
}

TEST(Pow, RefusesWhatItCannotPromise) {
  for (const double base : {0.0, -1.0, 0x1p-1074, kInf, kNaN}) {
    EXPECT_THROW(pow_f64(base, 1), std::invalid_argument) << base;
    EXPECT_THROW(log_f64(base), std::invalid_argument) << base;
  }
  for (const double exponent : {1001.0, -1001.0, kInf, kNaN})
    EXPECT_THROW(pow_f64(2, exponent), std::invalid_argument) << exponent;
}

// e^(y ln x) in fp64 alone is found out.
TEST(Pow, AnFp64LogarithmShows) {
  int differ = 0;
  for (int i = 1; i < 32; ++i)
    if (std::exp(-2.0 * i / 64 * std::log(8e6)) != exact_pow(8e6, -2.0 * i / 64)) ++differ;
  EXPECT_GT(differ, 5);
}

}  // namespace
}  // namespace mlacheck
