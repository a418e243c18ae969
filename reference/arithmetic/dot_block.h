#pragma once

#include <cstdint>

namespace mlacheck {

// Ordered dots of rows with rows:
//
//   y[t * y_stride + o] = ordered_dot(x + t * x_stride, w + o * n, n)     t < tokens, o < outputs
//
// bit for bit under every InstructionSet, but for the bits of NaN.
struct DotBlock {
  const float* x;
  std::int64_t x_stride;
  std::int64_t tokens;
  const float* w;
  std::int64_t outputs;
  std::int64_t n;
  float* y;
  std::int64_t y_stride;
};
void dot_block(const DotBlock& block);

}  // namespace mlacheck
