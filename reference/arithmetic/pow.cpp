#include "reference/arithmetic/pow.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/arithmetic/double_double.h"

namespace mlacheck {
namespace {

constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// ln x = k ln 2 + 2 atanh(s), x = 2^k m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), |s| <
// 0.172.
DoubleDouble log_dd(double x) {
  int k;
  double m = std::frexp(x, &k);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    --k;
  }
  const DoubleDouble s = DoubleDouble{m - 1} / two_sum(m, 1);
  const DoubleDouble square = s * s;
  DoubleDouble series = {0};
  for (int i = 43; i >= 1; i -= 2)
    series = series * square + DoubleDouble{1} / DoubleDouble{1.0 * i};
  return DoubleDouble{1.0 * k} * kLn2 + DoubleDouble{2} * (s * series);
}

// e^x = 2^k e^r, |r| <= ln(2) / 2.
double exp_dd(DoubleDouble x) {
  const double k = std::floor(x.high / kLn2.high + 0.5);
  const DoubleDouble r = x + DoubleDouble{-k} * kLn2;
  DoubleDouble series = {1};
  for (int i = 25; i >= 1; --i) series = DoubleDouble{1} + series * (r / DoubleDouble{1.0 * i});
  return std::ldexp(series.high, static_cast<int>(k));
}

void require_positive_normal(const char* argument, double x) {
  if (!(x >= std::numeric_limits<double>::min()) || !(x <= std::numeric_limits<double>::max()))
    throw std::invalid_argument(
        fmt::format("{}: expected positive and normal, got {}", argument, x));
}

}  // namespace

double log_f64(double x) {
  require_positive_normal("log_f64: x", x);
  return log_dd(x).high;
}

double pow_f64(double base, double exponent) {
  require_positive_normal("pow_f64: base", base);
  const DoubleDouble log = log_dd(base) * DoubleDouble{exponent};
  if (!(std::fabs(log.high) <= 1000.5 * kLn2.high))
    throw std::invalid_argument(
        fmt::format("pow_f64: {}^{}: expected within 2^-1000 .. 2^1000", base, exponent));
  return exp_dd(log);
}

}  // namespace mlacheck
