#pragma once

namespace mlacheck {

// base^exponent, the same bits everywhere (no libm): correctly rounded but for about one case in
// 2^40. base: positive and normal; the power: within 2^-1000 .. 2^1000. Throws
// std::invalid_argument outside. Slow (microseconds): for tables, such as RoPE's inv_freq[i] =
// pow_f64(theta, -2.0 * i / dim).
double pow_f64(double base, double exponent);

// ln x, correctly rounded but for about one case in 2^40. x: positive and normal; throws
// std::invalid_argument otherwise.
double log_f64(double x);

}  // namespace mlacheck
