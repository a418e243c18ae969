#pragma once

#include <span>

#include "reference/formats/dtype.h"

namespace mlacheck {

//   y[i] = (d[i] * rstd) * weight[i] + bias[i]
//   d[i] = x[i] - mean(x)
//   rstd = 1 / sqrt(sum_i d[i]^2 / n + eps)
//
// fp32 in this order, the sums ordered; one rounding to dtype at the end. All spans have n
// elements; y may be x. Throws std::invalid_argument for unequal sizes.
void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, DType dtype, std::span<float> y);

}  // namespace mlacheck
