#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/formats/bf16.h"
#include "reference/layer/attention_layer.h"
#include "reference/layer/linear.h"
#include "reference/operators/views.h"

// Random layers for the tests; no part of the library.
namespace mlacheck::testing {

// splitmix64; a sum of four uniforms for what should look Gaussian.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xd1342543de82ef95u) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  // Mean 0, standard deviation 1.
  float normal() {
    const std::uint64_t z = next();
    const auto sum =
        static_cast<float>((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
    return (sum - 131070.0f) * 0x1.bb67aep-16f;  // sqrt(3) / 65536
  }

 private:
  std::uint64_t state_;
};

inline std::vector<float> normals(std::size_t n, float scale, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> x(n);
  for (float& element : x) element = random.normal() * scale;
  return x;
}

inline bool is_bf16(float x) { return to_float(to_bf16(x)) == x; }

inline Weight bf16_weight(std::int64_t rows, std::int64_t cols, std::span<const float> values) {
  auto data = std::make_shared<std::vector<Bf16>>();
  for (const float value : values) data->push_back(to_bf16(value));
  return {DType::bf16, rows, cols, data->data(), data};
}

inline std::vector<float> values_of(const Weight& w) {
  std::vector<float> values(static_cast<std::size_t>(w.rows * w.cols));
  load_row(w.data, w.dtype, w.rows * w.cols, values.data());
  return values;
}

// Projections keep the variance of what they project; norms are near 1, the bias is not small.
// The same as fp32, whose rows are made when they are read.
inline Weight read_weight(const Weight& w) {
  const auto read = [w](std::int64_t begin, std::int64_t count, float* to) {
    widen_rows(w, begin, count, to);
  };
  return {.dtype = DType::f32, .rows = w.rows, .cols = w.cols, .owner = w.owner, .read = read};
}

inline LayerWeights random_weights(const ModelSizes& sizes, bool full, std::uint64_t seed) {
  LayerWeights weights;
  for (const ExpectedTensor& tensor : expected_tensors(sizes, full)) {
    const bool vector = tensor.shape.size() == 1;
    const std::int64_t rows = vector ? 1 : tensor.shape[0];
    const std::int64_t cols = tensor.shape.back();
    const float scale =
        vector ? 0.2f : static_cast<float>(1 / std::sqrt(static_cast<double>(cols)));
    std::vector<float> values = normals(static_cast<std::size_t>(rows * cols), scale, ++seed);
    if (tensor.name.ends_with("norm.weight"))
      for (float& value : values) value += 1;
    weights.*tensor.member = bf16_weight(rows, cols, values);
  }
  return weights;
}

inline LayerInput random_input(const ModelSizes& sizes, std::int64_t rows, std::uint64_t seed,
                               float scale = 1) {
  LayerInput input;
  input.hidden = Matrix(rows, sizes.hidden_size);
  input.hidden.data = normals(input.hidden.data.size(), scale, seed);
  for (float& x : input.hidden.data) x = to_float(to_bf16(x));
  for (std::int64_t s = 0; s < rows; ++s) input.positions.push_back(1000 + s);
  return input;
}

// ||a - b|| / ||b||.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / norm);
}
inline double relative_error(const Matrix& a, const Matrix& b) {
  return relative_error(std::span(a.data), std::span(b.data));
}

// Name of the first stage of which the last rows of `full` are not the bits of `part`; "" when
// there is none.
inline std::string first_difference(const LayerStages& full, const LayerStages& part) {
  const std::vector<StageView> a = views(full);
  const std::vector<StageView> b = views(part);
  if (a.size() != b.size()) return "number of stages";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].cols != b[i].cols || a[i].rows < b[i].rows) return std::string(a[i].name);
    const auto n = static_cast<std::size_t>(b[i].rows * b[i].cols);
    if (!a[i].values.empty())
      for (std::size_t j = 0; j < n; ++j)
        if (std::bit_cast<std::uint32_t>(a[i].values.last(n)[j]) !=
            std::bit_cast<std::uint32_t>(b[i].values[j]))
          return std::string(a[i].name);
    if (!a[i].indices.empty())
      for (std::size_t j = 0; j < n; ++j)
        if (a[i].indices.last(n)[j] != b[i].indices[j]) return std::string(a[i].name);
  }
  return "";
}

}  // namespace mlacheck::testing
