// By hand, four minutes of processor time:
//   MLACHECK_MANUAL=1 ctest -L manual -R exp2_log2_exhaustive
#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <vector>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/function_error.h"
#include "reference/arithmetic/log2.h"

namespace mlacheck {
namespace {

// Exact answers come from MPFR in 64 bits or more, and are combined by one product or sum, rounded
// to 2^-64: less than 2^-38 ulp of fp32.
static_assert(std::numeric_limits<long double>::digits >= 64);

constexpr std::int64_t kFractions = 1 << 23;  // of a binade

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

void update(WorstError& worst, long double exact, float computed, float x) {
  const long double difference = std::fabs(exact - static_cast<long double>(computed));
  const auto ulps = static_cast<double>(std::scalbn(difference, 23 - std::ilogb(exact)));
  keep_larger(worst, {ulps, x});
}

long double exact(MpfrFunction function, double x) {
  const MpfrNumber argument(x);
  MpfrNumber value;
  function(value.get(), argument.get(), MPFR_RNDN);
  return mpfr_get_ld(value.get(), MPFR_RNDN);
}

// All x = unit (1 + i / 2^23), unit = +-2^e: 2^x = 2^(unit (1 + high / 2^11)) 2^(unit low / 2^23),
// i = 2^12 high + low.
WorstError worst_exp2_of_binade(double unit) {
  std::vector<long double> of_high, of_low;
  for (int high = 0; high < 1 << 11; ++high)
    of_high.push_back(exact(mpfr_exp2, unit * (1 + high * 0x1p-11)));
  for (int low = 0; low < 1 << 12; ++low) of_low.push_back(exact(mpfr_exp2, unit * low * 0x1p-23));
  WorstError worst;
#pragma omp parallel
  {
    WorstError mine;
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < kFractions; ++i) {
      const auto x = static_cast<float>(unit * (1 + static_cast<double>(i) * 0x1p-23));
      if (x < -126) continue;
      update(
          mine,
          of_high[static_cast<std::size_t>(i >> 12)] * of_low[static_cast<std::size_t>(i & 0xfff)],
          exp2_f32(x), x);
    }
#pragma omp critical
    keep_larger(worst, mine);
  }
  return worst;
}

// All x = 2^n unit (1 + i / 2^23), n = first .. last: log2(x) = n + log2(unit (1 + i / 2^23)).
WorstError worst_log2_of_binades(double unit, int first, int last) {
  WorstError worst;
#pragma omp parallel
  {
    WorstError mine;
#pragma omp for schedule(dynamic, 1024)
    for (std::int64_t i = 0; i < kFractions; ++i) {
      const double fraction = unit * (1 + static_cast<double>(i) * 0x1p-23);
      if (fraction == 1) continue;  // see Log2.ExactAtPowersOfTwo
      const long double of_fraction = exact(mpfr_log2, fraction);
      for (int n = first; n <= last; ++n) {
        const auto x = static_cast<float>(std::ldexp(fraction, n));
        update(mine, static_cast<long double>(n) + of_fraction, log2_f32(x), x);
      }
    }
    mpfr_free_cache();
#pragma omp critical
    keep_larger(worst, mine);
  }
  return worst;
}

class Exhaustive : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("MLACHECK_MANUAL") == nullptr) GTEST_SKIP() << "MLACHECK_MANUAL=1 is not set";
  }
};

// All floats of (-126, 128).
TEST_F(Exhaustive, Exp2) {
  // Nearer to 0 than 2^-25 the correctly rounded result is 1.
  for (std::uint32_t x = 0; x < bits(0x1p-25f); ++x)
    for (const float tiny : {std::bit_cast<float>(x), -std::bit_cast<float>(x)})
      ASSERT_EQ(exp2_f32(tiny), 1.0f) << tiny;
  for (const double sign : {1.0, -1.0}) {
    WorstError worst;
    for (int e = -25; e <= 6; ++e) keep_larger(worst, worst_exp2_of_binade(std::ldexp(sign, e)));
    std::cout << "exp2_f32: " << worst.ulps << " ulp at " << worst.at << "\n";
    EXPECT_LE(worst.ulps, kExp2Ulps);
  }
}

// All floats of [-126, -0].
TEST_F(Exhaustive, Exp2IsAtMostOneBelowZero) {
  std::int64_t larger = 0;
#pragma omp parallel for reduction(+ : larger)
  for (std::int64_t x = bits(-0.0f); x <= std::int64_t{bits(-126.0f)}; ++x)
    if (!(exp2_f32(std::bit_cast<float>(static_cast<std::uint32_t>(x))) <= 1.0f)) ++larger;
  EXPECT_EQ(larger, 0);
}

// All positive floats.
TEST_F(Exhaustive, Log2) {
  for (const WorstError& worst :
       {worst_error(log2_f32, mpfr_log2, 1, bits(0x1p-126f)), worst_log2_of_binades(0.5, -125, 0),
        worst_log2_of_binades(1, 0, 127)}) {
    std::cout << "log2_f32: " << worst.ulps << " ulp at " << worst.at << "\n";
    EXPECT_LE(worst.ulps, kLog2Ulps);
  }
}

}  // namespace
}  // namespace mlacheck
