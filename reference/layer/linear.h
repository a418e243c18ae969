#pragma once

#include <cstdint>

#include "reference/arithmetic/dot_block.h"
#include "reference/formats/dtype.h"
#include "reference/layer/layer_weights.h"
#include "reference/layer/matrix.h"

namespace mlacheck {

// y[t, o] = sum_i x[t, i] * w[o, i]: fp32 ordered dot (ordered_sum.h), one rounding to dtype (f32
// or bf16). x [T, in], w [out, in] f32, f16 or bf16, y [T, out]. Threads split the output rows.
// Throws std::invalid_argument when the inner sizes differ.
Matrix linear(const Matrix& x, const Weight& w, DType dtype);

// Rows [begin, begin + count) of w widened to fp32, exactly, into destination [count, w.cols].
void widen_rows(const Weight& w, std::int64_t begin, std::int64_t count, float* destination);

// A vector's elements widened to fp32.
Matrix widen(const Weight& w);

// The serial heart of linear: dots of token rows and contiguous weight rows, rounded to dtype.
void rounded_dot_block(const DotBlock& block, DType dtype);

}  // namespace mlacheck
