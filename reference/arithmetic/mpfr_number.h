#pragma once

#include <mpfr.h>

#include <cmath>

namespace mlacheck {

// A number of 100 bits, for tests: the exact answer as far as fp64 is concerned.
class MpfrNumber {
 public:
  MpfrNumber() { mpfr_init2(value_, 100); }
  explicit MpfrNumber(double x) : MpfrNumber() { mpfr_set_d(value_, x, MPFR_RNDN); }
  ~MpfrNumber() { mpfr_clear(value_); }
  MpfrNumber(const MpfrNumber&) = delete;
  MpfrNumber& operator=(const MpfrNumber&) = delete;

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  float to_float() const { return mpfr_get_flt(value_, MPFR_RNDN); }
  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }

  // |this - computed| in units of the last of `precision` bits of this; this != 0.
  double ulps_from(double computed, int precision) const {
    const MpfrNumber difference(value_, computed);
    const int exponent = static_cast<int>(mpfr_get_exp(value_));
    return std::ldexp(std::fabs(difference.to_double()), precision - exponent);
  }

 private:
  MpfrNumber(mpfr_srcptr a, double b) : MpfrNumber() { mpfr_sub_d(value_, a, b, MPFR_RNDN); }

  mpfr_t value_;
};

}  // namespace mlacheck
