#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/formats/dtype.h"
#include "reference/layer/model_sizes.h"

namespace mlacheck {

// fp64 answers of a layer's stages, each from the stage's own inputs as they are stored. A stage's
// bound is
//
//   |computed - value| <= coefficient * gauge + radius
//
// with `radius` the fp64 answer's own error (a-priori gamma bound) and a coefficient that the
// arithmetic of the judged side sets: verdict/stage_interval.h has one for each stage.
struct StageOracle {
  explicit StageOracle(std::size_t elements = 0)
      : value(elements), gauge(elements), radius(elements) {}

  std::vector<double> value;
  std::vector<double> gauge;
  std::vector<double> radius;
};

//   y[t, o] = sum_i x[t, i] w[o, i]
//   gauge   = |x[t]|_2 |w[o]|_2 >= sum_i |x| |w|
//
// x [rows, n] fp32; w [outputs, n] contiguous, f32, f16 or bf16. The gauge (Cauchy-Schwarz)
// is half the work of the exact sum, and 1.6 times as wide for Gaussian operands.
StageOracle linear_oracle(std::span<const float> x, std::int64_t rows, const void* w, DType w_dtype,
                          std::int64_t outputs);

//   y     = w x / sqrt(mean(x^2) + eps), one row
//   gauge = |y|
StageOracle rms_norm_oracle(std::span<const float> x, std::span<const float> weight, double eps);

//   y     = w d rstd + b, one row;  d = x - mean,  rstd = 1 / sqrt(var + eps), biased variance
//   gauge = |w| rstd (M + |d| (1 + M rstd)) + |b|,  M = mean|x|
//
// With a two-pass variance an error of c M in the mean moves every d by c M and the variance by
// (c M)^2 only.
StageOracle layer_norm_oracle(std::span<const float> x, std::span<const float> weight,
                              std::span<const float> bias, double eps);

//   (a, b) <- (a cos - b sin, b cos + a sin), one row of 2 * cos.size() elements, by given tables
//   gauge   = (|a| |cos| + |b| |sin|, |b| |cos| + |a| |sin|)
StageOracle rope_oracle(std::span<const float> x, std::span<const float> cos,
                        std::span<const float> sin, RopePairing pairing);

}  // namespace mlacheck
