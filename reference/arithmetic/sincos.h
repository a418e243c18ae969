#pragma once

namespace mlacheck {

struct SinCos {
  float sin;
  float cos;
};

struct SinCosF64 {
  double sin;
  double cos;
};

// Sine and cosine of an angle in radians, |angle| <= 2^31, the same bits everywhere (no libm, no
// fma). For fp32 angles within 0.8 ulp of fp64; for other angles add an absolute error of 2^-87.
// Throws std::invalid_argument for larger angles, Inf and NaN.
SinCosF64 sincos_f64(double angle);

// The same rounded to fp32: correctly rounded but for about one angle in 2^28.
inline SinCos sincos_f32(float angle) {
  const SinCosF64 wide = sincos_f64(static_cast<double>(angle));
  return {static_cast<float>(wide.sin), static_cast<float>(wide.cos)};
}

}  // namespace mlacheck
