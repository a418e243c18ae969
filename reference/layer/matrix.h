#pragma once

#include <cstdint>
#include <vector>

namespace mlacheck {

// A dense row-major fp32 matrix. Results in bf16 numerics are fp32 values that bf16 represents.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> data;

  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t col_count)
      : rows(row_count), cols(col_count), data(static_cast<std::size_t>(row_count * col_count)) {}

  float* row(std::int64_t r) { return data.data() + r * cols; }
  const float* row(std::int64_t r) const { return data.data() + r * cols; }
};

// The last `rows` rows of m.
inline Matrix last_rows(const Matrix& m, std::int64_t rows) {
  Matrix result;
  result.rows = rows;
  result.cols = m.cols;
  result.data.assign(m.data.end() - rows * m.cols, m.data.end());
  return result;
}

}  // namespace mlacheck
