#include "reference/arithmetic/sincos.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "reference/arithmetic/double_double.h"

namespace mlacheck {
namespace {

// angle = quadrant * pi/2 + rest, |rest| <= pi/4.
struct Reduced {
  std::int64_t quadrant;
  DoubleDouble rest;
};

// pi/2 in four parts; the first three have 22 bits, so that their products with a 31-bit quadrant
// are exact.
Reduced reduce(double angle) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPi[] = {0x1.921fbp+0, 0x1.5110bp-22, 0x1.184698p-44, 0x1.3198a2e037073p-69};
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer
  const double k = (angle * kTwoOverPi + kRound) - kRound;
  const double first = angle - k * kHalfPi[0];  // exact
  const DoubleDouble second = two_sum(first, -(k * kHalfPi[1]));
  const DoubleDouble third = two_sum(second.high, -(k * kHalfPi[2]));
  const double low = (second.low + third.low) - k * kHalfPi[3];
  return {static_cast<std::int64_t>(k), fast_two_sum(third.high, low)};
}

// Taylor series; the first term left out is below 2^-63 of the result at pi/4.
double sin_of_rest(DoubleDouble r) {
  const double z = r.high * r.high;
  double p = 1.0 / 355687428096000.0;  // 17!
  p = p * z - 1.0 / 1307674368000.0;
  p = p * z + 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return r.high + (r.high * (z * p) + r.low * (1.0 - 0.5 * z));
}

double cos_of_rest(DoubleDouble r) {
  const double z = r.high * r.high;
  double p = 1.0 / 20922789888000.0;  // 16!
  p = p * z - 1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  const DoubleDouble start = fast_two_sum(1.0, -0.5 * z);
  return start.high + (start.low + (z * (z * p) - r.high * r.low));
}

}  // namespace

SinCosF64 sincos_f64(double angle) {
  if (!(std::fabs(angle) <= 0x1p31))
    throw std::invalid_argument(
        fmt::format("sincos_f64: angle: expected at most 2^31, got {}", angle));
  const Reduced reduced = reduce(angle);
  const double s = sin_of_rest(reduced.rest), c = cos_of_rest(reduced.rest);
  switch (reduced.quadrant & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

}  // namespace mlacheck
