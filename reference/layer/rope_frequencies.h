#pragma once

#include <cstdint>
#include <vector>

#include "reference/layer/model_sizes.h"

namespace mlacheck {

// Angular frequency of each pair i of n = dim / 2, in radians a position:
//
//   standard  f[i] = theta^(-2i / dim)
//   yarn      f[i] = theta^(-2i / dim) * ((1 - r[i]) + r[i] / factor)
//             r[i] = clamp((i - low) / (high - low), 0, 1)        0 keeps, 1 interpolates
//             low  = max(floor(d(beta_fast)), 0),  high = min(ceil(d(beta_slow)), dim - 1)
//             d(b) = dim * ln(original_max_position_embeddings / (2 pi b)) / (2 ln theta)
//
// (HF _compute_yarn_parameters, DeepSeek precompute_freqs_cis; high = low + 0.001 where they meet.)
// Computed in double, rounded once to fp32; the same bits everywhere.
std::vector<float> rope_frequencies(const RopeParameters& rope, std::int64_t dim);

// yarn's m(factor, mscale) = 0.1 * mscale * ln(factor) + 1, and 1 for a factor <= 1.
double yarn_mscale(double factor, double mscale);

// Factor on cos and sin: 1; under yarn m(factor, mscale) / m(factor, mscale_all_dim), or m(factor,
// 1) where either mscale is 0.
float rope_attention_factor(const RopeParameters& rope);

}  // namespace mlacheck
