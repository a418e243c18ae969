#include "reference/oracle/stages.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/operators/views.h"
#include "reference/oracle/error_bound.h"

namespace mlacheck {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kOutputBlock = 64;

double mean_of(std::span<const float> x, double (*term)(double)) {
  double sum = 0;
  for (const float value : x) sum += term(static_cast<double>(value));
  return sum / static_cast<double>(x.size());
}

}  // namespace

StageOracle linear_oracle(std::span<const float> x, std::int64_t rows, const void* w, DType w_dtype,
                          std::int64_t outputs) {
  detail::require(rows == 0 ? x.empty() : rows > 0 && std::ssize(x) % rows == 0,
                  "x: expected {} equal rows, got {} elements", rows, x.size());
  detail::require(w_dtype == DType::f32 || w_dtype == DType::f16 || w_dtype == DType::bf16,
                  "w: expected f32, f16 or bf16, got {}", name_of(w_dtype));
  if (rows == 0) return StageOracle();
  const std::int64_t n = std::ssize(x) / rows;
  const Matrix inputs = Eigen::Map<const FloatMatrix>(x.data(), rows, n).cast<double>();
  const Eigen::VectorXd input_norms = inputs.rowwise().norm();
  const double relative_radius = fp64_gamma(n + 1);
  StageOracle oracle(static_cast<std::size_t>(rows * outputs));
  const auto row_bytes = n * static_cast<std::int64_t>(size_of(w_dtype));
  detail::parallel_rows((outputs + kOutputBlock - 1) / kOutputBlock, [&](std::int64_t block) {
    const std::int64_t first = block * kOutputBlock;
    const std::int64_t count = std::min(kOutputBlock, outputs - first);
    FloatMatrix widened(count, n);
    load_row(static_cast<const std::byte*>(w) + first * row_bytes, w_dtype, count * n,
             widened.data());
    const Matrix weights = widened.cast<double>();
    const Eigen::VectorXd weight_norms = weights.rowwise().norm();
    const Matrix y = inputs * weights.transpose();
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t o = 0; o < count; ++o) {
        const auto i = static_cast<std::size_t>(t * outputs + first + o);
        oracle.value[i] = y(t, o);
        // The norms' own rounding is far below 2^-40.
        oracle.gauge[i] = input_norms[t] * weight_norms[o] * (1 + 0x1p-40);
        oracle.radius[i] = relative_radius * oracle.gauge[i];
      }
  });
  return oracle;
}

StageOracle rms_norm_oracle(std::span<const float> x, std::span<const float> weight, double eps) {
  detail::require(weight.size() == x.size(), "weight: expected {} elements, got {}", x.size(),
                  weight.size());
  const double rstd = 1 / std::sqrt(mean_of(x, [](double v) { return v * v; }) + eps);
  StageOracle oracle(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    oracle.value[i] = static_cast<double>(weight[i]) * (static_cast<double>(x[i]) * rstd);
    oracle.gauge[i] = std::abs(oracle.value[i]);
    oracle.radius[i] = fp64_gamma(std::ssize(x) + 8) * oracle.gauge[i];
  }
  return oracle;
}

StageOracle layer_norm_oracle(std::span<const float> x, std::span<const float> weight,
                              std::span<const float> bias, double eps) {
  detail::require(weight.size() == x.size() && bias.size() == x.size(),
                  "weight, bias: expected {} elements, got {} and {}", x.size(), weight.size(),
                  bias.size());
  const double mean = mean_of(x, [](double v) { return v; });
  const double magnitude = mean_of(x, [](double v) { return std::abs(v); });
  double variance = 0;
  for (const float value : x) variance += std::pow(static_cast<double>(value) - mean, 2);
  variance /= static_cast<double>(x.size());
  const double rstd = 1 / std::sqrt(variance + eps);
  StageOracle oracle(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    const double w = static_cast<double>(weight[i]);
    const double b = static_cast<double>(bias[i]);
    oracle.value[i] = d * rstd * w + b;
    oracle.gauge[i] =
        std::abs(w) * rstd * (magnitude + std::abs(d) * (1 + magnitude * rstd)) + std::abs(b);
    oracle.radius[i] = fp64_gamma(std::ssize(x) + 16) * oracle.gauge[i];
  }
  return oracle;
}

StageOracle rope_oracle(std::span<const float> x, std::span<const float> cos,
                        std::span<const float> sin, RopePairing pairing) {
  detail::require(x.size() == 2 * cos.size() && sin.size() == cos.size(),
                  "x, cos, sin: expected 2n, n and n elements, got {}, {} and {}", x.size(),
                  cos.size(), sin.size());
  const std::size_t pairs = cos.size();
  const bool interleaved = pairing == RopePairing::interleaved;
  StageOracle oracle(x.size());
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t first = interleaved ? 2 * i : i;
    const std::size_t second = interleaved ? 2 * i + 1 : i + pairs;
    const double a = static_cast<double>(x[first]), b = static_cast<double>(x[second]);
    const double c = static_cast<double>(cos[i]), s = static_cast<double>(sin[i]);
    oracle.value[first] = a * c - b * s;
    oracle.value[second] = b * c + a * s;
    oracle.gauge[first] = std::abs(a * c) + std::abs(b * s);
    oracle.gauge[second] = std::abs(b * c) + std::abs(a * s);
    for (const std::size_t e : {first, second}) oracle.radius[e] = fp64_gamma(3) * oracle.gauge[e];
  }
  return oracle;
}

}  // namespace mlacheck
