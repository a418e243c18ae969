#pragma once

#include <span>

namespace mlacheck {

// y[i] = (x[i] * rstd) * weight[i],  rstd = 1 / sqrt(sum_i x[i]^2 / n + eps)
//
// fp32 in this order, the sum ordered (ordered_sum.h). roundings: 0 none; 1 bf16(y); 2 bf16(x *
// rstd) before the weight and bf16 of the product (HF). x, weight and y have n elements; y may be
// x. Throws std::invalid_argument for other roundings or unequal sizes.
void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int roundings,
              std::span<float> y);

}  // namespace mlacheck
