#pragma once

#include <cstdint>
#include <span>

#include "reference/formats/dtype.h"
#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"

namespace mlacheck {

// cos and sin of position * frequency, [positions, dim / 2].
struct RopeTable {
  Matrix cos;
  Matrix sin;
};

// angle = fp32(position) * frequency in fp32; cos and sin of that fp32 angle times
// rope_attention_factor, rounded to dtype (f32 or bf16).
RopeTable rope_table(const RopeParameters& rope, std::int64_t dim,
                     std::span<const std::int64_t> positions, DType dtype);

// Rotates the pairs (a, b) of x in place, by row `position_row` of the table:
//
//   (a, b) <- (a cos - b sin, b cos + a sin)
//
// roundings: 0 fp32, products and sum apart; 1 the fp32 result to bf16; 3 both products and their
// sum to bf16. x has twice as many elements as a table row; else throws std::invalid_argument.
void apply_rope(std::span<float> x, const RopeTable& table, std::int64_t position_row,
                RopePairing pairing, int roundings);

// HF leaves interleaved results de-interleaved: hf[i] = x[2i], hf[n + i] = x[2i + 1]. Puts them
// back in place.
void reinterleave_from_hf(std::span<float> x);

}  // namespace mlacheck
