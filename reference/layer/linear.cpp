#include "reference/layer/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "reference/operators/parallel_rows.h"
#include "reference/operators/views.h"

namespace mlacheck {
namespace {

constexpr std::int64_t kOutputBlock = 16;  // weight rows widened together
// Tokens that share a widened row. All outputs read them again: as many as a cache holds (2048 of
// 6144 elements at once take 1.4 times as long), and enough for widening to be a few percent.
constexpr std::int64_t kTokenBlock = 256;

}  // namespace

void widen_rows(const Weight& w, std::int64_t begin, std::int64_t count, float* destination) {
  if (w.read) return w.read(begin, count, destination);
  const auto* bytes = static_cast<const std::byte*>(w.data);
  const std::int64_t offset = begin * w.cols * static_cast<std::int64_t>(size_of(w.dtype));
  load_row(bytes + offset, w.dtype, count * w.cols, destination);
}

Matrix widen(const Weight& w) {
  Matrix m(w.rows, w.cols);
  widen_rows(w, 0, w.rows, m.data.data());
  return m;
}

void rounded_dot_block(const DotBlock& block, DType dtype) {
  dot_block(block);
  for (std::int64_t t = 0; t < block.tokens; ++t)
    for (std::int64_t o = 0; o < block.outputs; ++o) {
      float& y = block.y[t * block.y_stride + o];
      y = round_to(dtype, y);
    }
}

Matrix linear(const Matrix& x, const Weight& w, DType dtype) {
  if (x.cols != w.cols)
    throw std::invalid_argument(
        fmt::format("linear: expected weight rows of {} elements, got {}", x.cols, w.cols));
  if (w.dtype != DType::f32 && w.dtype != DType::f16 && w.dtype != DType::bf16)
    throw std::invalid_argument(
        fmt::format("linear: weights: expected f32, f16 or bf16, got {}", name_of(w.dtype)));
  Matrix y(x.rows, w.rows);
  for (std::int64_t first = 0; first < x.rows; first += kTokenBlock) {
    const std::int64_t tokens = std::min(kTokenBlock, x.rows - first);
    const auto buffer = [&] {
      return std::vector<float>(static_cast<std::size_t>(kOutputBlock * w.cols));
    };
    const std::int64_t blocks = (w.rows + kOutputBlock - 1) / kOutputBlock;
    detail::parallel_rows(blocks, buffer, [&](std::int64_t block, std::vector<float>& rows) {
      const std::int64_t o = block * kOutputBlock;
      const std::int64_t outputs = std::min(kOutputBlock, w.rows - o);
      widen_rows(w, o, outputs, rows.data());
      rounded_dot_block({.x = x.row(first),
                         .x_stride = x.cols,
                         .tokens = tokens,
                         .w = rows.data(),
                         .outputs = outputs,
                         .n = w.cols,
                         .y = y.row(first) + o,
                         .y_stride = y.cols},
                        dtype);
    });
  }
  return y;
}

}  // namespace mlacheck
