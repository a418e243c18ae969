#pragma once

#include <mpfr.h>

#include <cmath>

namespace mlacheck {

// A number of 128 bits, for tests: the exact answer as far as fp64 is concerned.
class MpfrNumber {
 public:
  MpfrNumber() { mpfr_init2(value_, 128); }
  explicit MpfrNumber(double x) : MpfrNumber() { mpfr_set_d(value_, x, MPFR_RNDN); }
  ~MpfrNumber() { mpfr_clear(value_); }
  MpfrNumber(const MpfrNumber&) = delete;
  MpfrNumber& operator=(const MpfrNumber&) = delete;

  mpfr_ptr get() { return value_; }
  float to_float() const { return mpfr_get_flt(value_, MPFR_RNDN); }
  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }

  // |this - computed| in units of the last of `precision` bits of this; this != 0.
  double ulps_from(double computed, int precision) const {
    MpfrNumber difference;
    mpfr_sub_d(difference.value_, value_, computed, MPFR_RNDN);
    return std::ldexp(std::fabs(difference.to_double()),
                      precision - static_cast<int>(mpfr_get_exp(value_)));
  }

 private:
  mpfr_t value_;
};

}  // namespace mlacheck
