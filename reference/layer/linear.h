#pragma once

#include <cstdint>

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

// The serial heart of linear: y[t * y_stride + o] for t < tokens, o < outputs, from token rows
// x_stride apart and contiguous fp32 weight rows of n.
struct DotBlock {
  const float* x;
  std::int64_t x_stride;
  std::int64_t tokens;
  const float* w;
  std::int64_t outputs;
  std::int64_t n;
  DType dtype;
  float* y;
  std::int64_t y_stride;
};
void dot_block(const DotBlock& block);

}  // namespace mlacheck
