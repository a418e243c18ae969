#include "reference/arithmetic/double_double.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace mlacheck {
namespace {

// Wide enough for any exact sum or product here.
class Wide {
 public:
  explicit Wide(DoubleDouble x) {
    mpfr_init2(value, 1000);
    mpfr_set_d(value, x.high, MPFR_RNDN);
    mpfr_add_d(value, value, x.low, MPFR_RNDN);
  }
  ~Wide() { mpfr_clear(value); }
  Wide(const Wide&) = delete;
  Wide& operator=(const Wide&) = delete;

  mpfr_t value;
};

using MpfrOperation = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

// |computed - operation(a, b)| / |operation(a, b)|
double relative_error(DoubleDouble computed, MpfrOperation operation, DoubleDouble a,
                      DoubleDouble b) {
  const Wide x(a), y(b);
  Wide exact({0}), difference(computed);
  operation(exact.value, x.value, y.value, MPFR_RNDN);
  mpfr_sub(difference.value, difference.value, exact.value, MPFR_RNDN);
  if (mpfr_zero_p(difference.value) != 0) return 0;
  mpfr_div(difference.value, difference.value, exact.value, MPFR_RNDN);
  return std::fabs(mpfr_get_d(difference.value, MPFR_RNDN));
}

class Numbers {
 public:
  double next() {
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53 + 0.5;
    return std::ldexp(random_() % 2 == 0 ? unit : -unit, static_cast<int>(random_() % 60) - 30);
  }
  DoubleDouble next_pair() { return fast_two_sum(next(), next() * 0x1p-90); }

 private:
  std::mt19937_64 random_{1};
};

TEST(DoubleDouble, TransformationsAreExact) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    const double a = numbers.next(), b = numbers.next();
    ASSERT_EQ(relative_error(two_sum(a, b), mpfr_add, {a}, {b}), 0) << a << " + " << b;
    ASSERT_EQ(relative_error(two_product(a, b), mpfr_mul, {a}, {b}), 0) << a << " * " << b;
    if (std::fabs(a) >= std::fabs(b)) {
      ASSERT_EQ(relative_error(fast_two_sum(a, b), mpfr_add, {a}, {b}), 0) << a << " + " << b;
    }
  }
}

TEST(DoubleDouble, OperationsWithin2ToMinus100) {
  Numbers numbers;
  for (int i = 0; i < 20000; ++i) {
    const DoubleDouble a = numbers.next_pair(), b = numbers.next_pair();
    ASSERT_LT(relative_error(a + b, mpfr_add, a, b), 0x1p-100) << a.high << " + " << b.high;
    ASSERT_LT(relative_error(a * b, mpfr_mul, a, b), 0x1p-100) << a.high << " * " << b.high;
    ASSERT_LT(relative_error(a / b, mpfr_div, a, b), 0x1p-100) << a.high << " / " << b.high;
    const DoubleDouble near = {-a.high, 0.7 * a.low};  // their sum cancels
    ASSERT_LT(relative_error(a + near, mpfr_add, a, near), 0x1p-100) << a.high;
  }
}

TEST(DoubleDouble, OneDoubleIsNotEnough) {
  const DoubleDouble third = DoubleDouble{1} / DoubleDouble{3};
  EXPECT_GT(relative_error({third.high}, mpfr_div, {1}, {3}), 0x1p-60);
}

}  // namespace
}  // namespace mlacheck
