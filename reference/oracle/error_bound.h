#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "reference/formats/dtype.h"

namespace mlacheck {

// Unit roundoff: |rn(x) - x| <= u |x| in the normal range.
constexpr double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::e4m3:
      return 0x1p-4;
    default:
      throw std::invalid_argument("unit_roundoff: expected a floating-point format, got " +
                                  std::string(name_of(dtype)));
  }
}

// Half the spacing of the subnormals: |rn(x) - x| <= h below the normal range.
constexpr double half_subnormal(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1p-150;
    case DType::f16:
      return 0x1p-25;
    case DType::bf16:
      return 0x1p-134;
    case DType::e4m3:
      return 0x1p-10;
    default:
      throw std::invalid_argument("half_subnormal: expected a floating-point format, got " +
                                  std::string(name_of(dtype)));
  }
}

// Largest relative error of a product of factors (1 + d_i)^+-1 with sum |d_i| <= x
// (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1).
inline double gamma_of(double x) {
  return x < 1 ? x / (1 - x) : std::numeric_limits<double>::infinity();
}

// A-priori bound of an fp64 sum of n products in any order, relative to the sum of their
// magnitudes.
inline double fp64_gamma(std::int64_t n) { return gamma_of(static_cast<double>(n) * 0x1p-53); }

}  // namespace mlacheck
