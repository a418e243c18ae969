#include "reference/layer/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/arithmetic/pow.h"

namespace mlacheck {
namespace {

// The pair that turns `turns` times within the original context, as a real number.
double correction_pair(const RopeParameters& rope, std::int64_t dim, double turns) {
  const auto context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(dim) * log_f64(context / (turns * 2 * std::numbers::pi)) /
         (2 * log_f64(rope.theta));
}

}  // namespace

std::vector<float> rope_frequencies(const RopeParameters& rope, std::int64_t dim) {
  const bool yarn = rope.type == RopeType::yarn;
  double low = 0;
  double high = 0;
  if (yarn) {
    low = std::max(std::floor(correction_pair(rope, dim, rope.beta_fast)), 0.0);
    high = std::min(std::ceil(correction_pair(rope, dim, rope.beta_slow)),
                    static_cast<double>(dim - 1));
    if (high == low) high += 0.001;
  }
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    double f = pow_f64(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    if (yarn) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      f *= (1 - ramp) + ramp / rope.factor;
    }
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * log_f64(factor) + 1;
}

float rope_attention_factor(const RopeParameters& rope) {
  if (rope.type != RopeType::yarn) return 1.0f;
  const double m =
      rope.mscale != 0 && rope.mscale_all_dim != 0
          ? yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim)
          : yarn_mscale(rope.factor, 1);
  return static_cast<float>(m);
}

}  // namespace mlacheck
