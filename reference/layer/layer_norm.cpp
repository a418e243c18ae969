#include "reference/layer/layer_norm.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/views.h"

namespace mlacheck {

void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, DType dtype, std::span<float> y) {
  if (weight.size() != x.size() || bias.size() != x.size() || y.size() != x.size())
    throw std::invalid_argument(
        fmt::format("layer_norm: expected {} weights, biases and results, got {}, {}, {}", x.size(),
                    weight.size(), bias.size(), y.size()));
  const auto n = static_cast<float>(x.size());
  const float mean = ordered_sum(x.data(), std::ssize(x)) / n;
  std::vector<float> d(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) d[i] = x[i] - mean;
  const float variance = ordered_dot(d.data(), d.data(), std::ssize(d)) / n;
  const float rstd = 1.0f / std::sqrt(variance + eps);
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = round_to(dtype, (d[i] * rstd) * weight[i] + bias[i]);
}

}  // namespace mlacheck
