#include "reference/layer/rms_norm.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/views.h"

namespace mlacheck {

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int roundings,
              std::span<float> y) {
  if (roundings < 0 || roundings > 2)
    throw std::invalid_argument(
        fmt::format("rms_norm: roundings: expected 0 .. 2, got {}", roundings));
  if (weight.size() != x.size() || y.size() != x.size())
    throw std::invalid_argument(fmt::format("rms_norm: expected {} weights and results, got {}, {}",
                                            x.size(), weight.size(), y.size()));
  const DType inner = roundings == 2 ? DType::bf16 : DType::f32;
  const DType outer = roundings >= 1 ? DType::bf16 : DType::f32;
  const float mean_square =
      ordered_dot(x.data(), x.data(), std::ssize(x)) / static_cast<float>(x.size());
  const float rstd = 1.0f / std::sqrt(mean_square + eps);
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = round_to(outer, round_to(inner, x[i] * rstd) * weight[i]);
}

}  // namespace mlacheck
