#include "reference/verdict/interval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/formats/bf16.h"
#include "reference/formats/f16.h"
#include "reference/operators/require.h"
#include "reference/operators/views.h"
#include "reference/oracle/error_bound.h"
#include "reference/verdict/constants.h"

namespace mlacheck {
namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

// x rounded to dtype. The step to fp32 goes outward unless fp32 is the format itself: then no value
// inside the end, fp32 or wider, rounds further than the end does.
double rounded_end(double x, float outward, DType dtype) {
  float nearest = static_cast<float>(x);
  if (dtype == DType::f32) return static_cast<double>(nearest);
  const auto widened = static_cast<double>(nearest);
  if (outward > 0 ? widened < x : widened > x) nearest = std::nextafter(nearest, outward);
  return static_cast<double>(round_to(dtype, nearest));
}

std::int32_t format_bits(DType dtype, float x) {
  switch (dtype) {
    case DType::f32:
      return std::bit_cast<std::int32_t>(x);
    case DType::f16:
      return static_cast<std::int16_t>(to_f16(x).bits);
    case DType::bf16:
      return static_cast<std::int16_t>(to_bf16(x).bits);
    default:
      break;
  }
  detail::require(false, "dtype: expected f32, f16 or bf16, got {}", name_of(dtype));
  return 0;
}

// Integers in the order of the values.
std::int64_t ordered(DType dtype, float x) {
  if (std::isnan(x)) x = std::numeric_limits<float>::quiet_NaN();
  const std::int64_t bits = format_bits(dtype, x);
  const std::int64_t sign = dtype == DType::f32 ? std::numeric_limits<std::int32_t>::min()
                                                : std::numeric_limits<std::int16_t>::min();
  return bits >= 0 ? bits : sign - bits;
}

}  // namespace

Interval rounded_interval(double expected, double radius, DType dtype) {
  if (!(radius < kInfinity)) return {-kInfinity, kInfinity};
  return {rounded_end(expected - radius, -kFloatInfinity, dtype),
          rounded_end(expected + radius, kFloatInfinity, dtype)};
}

double spacing(DType dtype, double x) {
  const int p = -std::ilogb(unit_roundoff(dtype));  // significant bits
  const double smallest = 2 * half_subnormal(dtype);
  if (x == 0 || !std::isfinite(x)) return smallest;
  return std::max(std::ldexp(1.0, std::ilogb(x) - (p - 1)), smallest);
}

Judgement judge(const ElementBound& bound, DType dtype, float got) {
  const double value = static_cast<double>(got);
  const Admissible& admissible = bound.admissible;
  if (admissible.anything) return {Status::pass, 0};
  if (std::isnan(got))
    return admissible.nan ? Judgement{Status::pass, 0} : Judgement{Status::fail, kInfinity};
  if (admissible.plus_inf && value == kInfinity) return {Status::pass, 0};
  if (admissible.minus_inf && value == -kInfinity) return {Status::pass, 0};
  if (!admissible.finite) return {Status::fail, kInfinity};
  if (value == 0 && std::signbit(got) && !admissible.negative_zero)
    return {Status::fail, kInfinity};
  // A contract can be so loose that its worst case is infinite, or NaN.
  if (!(bound.core < kInfinity)) return {Status::mistrusted, 0};

  const Interval core = rounded_interval(bound.expected, bound.core, dtype);
  const double budget = bound.core + 0.5 * spacing(dtype, std::abs(bound.expected) + bound.core);
  const double ratio = std::abs(value - bound.expected) / budget;
  const double used = value == bound.expected ? 0 : std::isnan(ratio) ? kInfinity : ratio;
  if (!(value >= core.low && value <= core.high)) return {Status::fail, used};
  const Interval likely =
      rounded_interval(bound.expected, std::min(bound.likely, bound.core), dtype);
  const bool inside = value >= likely.low && value <= likely.high;
  return {inside ? Status::pass : Status::improbable, used};
}

std::int64_t ulp_distance(DType dtype, float a, float b) {
  return std::abs(ordered(dtype, a) - ordered(dtype, b));
}

}  // namespace mlacheck
