#pragma once

#include <mpfr.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/arithmetic/mpfr_number.h"

namespace mlacheck {

// For tests: the largest error found, in ulp of the exact result, and where.
struct WorstError {
  double ulps = 0;
  float at = 0;
};

// A NaN is the largest error.
inline void keep_larger(WorstError& worst, WorstError error) {
  if (std::isnan(error.ulps)) error.ulps = std::numeric_limits<double>::infinity();
  if (error.ulps > worst.ulps) worst = error;
}

using MpfrFunction = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

// Compares function(x) with exact(x) for the floats whose bits are first, first + stride, ... up to
// and without last. exact(x) must be neither 0 nor infinite.
template <typename Function>
WorstError worst_error(Function function, MpfrFunction exact, std::uint32_t first,
                       std::uint32_t last, std::uint32_t stride = 1) {
  const std::int64_t count = (std::int64_t{last} - first + stride - 1) / stride;
  WorstError worst;
#pragma omp parallel
  {
    WorstError mine;
    {
      MpfrNumber x, y;
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = std::bit_cast<float>(first + static_cast<std::uint32_t>(i) * stride);
        mpfr_set_flt(x.get(), value, MPFR_RNDN);
        exact(y.get(), x.get(), MPFR_RNDN);
        keep_larger(mine, {y.ulps_from(static_cast<double>(function(value)), 24), value});
      }
    }
    mpfr_free_cache();
#pragma omp critical
    keep_larger(worst, mine);
  }
  return worst;
}

}  // namespace mlacheck
