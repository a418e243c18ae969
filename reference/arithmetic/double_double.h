#pragma once

#include <cmath>

namespace mlacheck {

// An unevaluated sum high + low, |low| <= ulp(high) / 2: about 106 bits. Relative error of each
// operation below 2^-100 (Dekker 1971; Joldes, Muller, Popescu 2017).
struct DoubleDouble {
  double high;
  double low = 0;
};

// a + b exactly, |a| >= |b| or a = 0.
inline DoubleDouble fast_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly.
inline DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a * b exactly (no underflow).
inline DoubleDouble two_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
  const DoubleDouble sum = fast_two_sum(high.high, high.low + low.high);
  return fast_two_sum(sum.high, sum.low + low.low);
}

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = two_product(a.high, b.high);
  return fast_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.high / b.high;
  const DoubleDouble rest = a + DoubleDouble{-first} * b;
  return fast_two_sum(first, rest.high / b.high);
}

}  // namespace mlacheck
