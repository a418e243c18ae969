#include "reference/layer/linear.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <stdexcept>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/formats/f16.h"
#include "reference/layer/layer_testing.h"

namespace mlacheck {
namespace {

using testing::bf16_weight;
using testing::normals;
using testing::values_of;

Matrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Matrix m(rows, cols);
  m.data = normals(m.data.size(), 1, seed);
  return m;
}

Weight random_weight(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  return bf16_weight(rows, cols, normals(static_cast<std::size_t>(rows * cols), 1, seed));
}

// Whether every element lies within gamma(ceil(n / 16) + 5) * sum |x w| of the exact sum.
bool within_bound(const Matrix& y, const Matrix& x, const std::vector<float>& w) {
  const auto steps = static_cast<double>((x.cols + 15) / 16 + 5);
  for (std::int64_t t = 0; t < y.rows; ++t)
    for (std::int64_t o = 0; o < y.cols; ++o) {
      long double exact = 0;
      long double magnitude = 0;
      for (std::int64_t i = 0; i < x.cols; ++i) {
        const long double product =
            static_cast<long double>(x.row(t)[i]) * static_cast<long double>(w[o * x.cols + i]);
        exact += product;
        magnitude += std::fabs(product);
      }
      const long double bound = steps * 0x1p-24 / (1 - steps * 0x1p-24) * magnitude;
      if (std::fabs(static_cast<long double>(y.row(t)[o]) - exact) > bound) return false;
    }
  return true;
}

TEST(Linear, IsTheProductWithTheTransposedWeights) {
  for (const auto& [tokens, in, out] :
       {std::array<std::int64_t, 3>{1, 16, 1}, {3, 37, 11}, {5, 512, 24}, {2, 2048, 9}}) {
    const Matrix x = random_matrix(tokens, in, 1);
    const Weight w = random_weight(out, in, 2);
    const Matrix y = linear(x, w, DType::f32);
    ASSERT_EQ(y.rows, tokens);
    ASSERT_EQ(y.cols, out);
    std::vector<float> values = values_of(w);
    EXPECT_TRUE(within_bound(y, x, values));
    values[0] += 1;
    EXPECT_FALSE(within_bound(y, x, values));
  }
}

TEST(Linear, AddsInTheOneOrder) {
  const Matrix x = random_matrix(259, 200, 3);  // more than one block of tokens
  const Weight w = random_weight(19, 200, 4);   // a partial block of outputs
  const std::vector<float> values = values_of(w);
  const Matrix y = linear(x, w, DType::f32);
  const Matrix rounded = linear(x, w, DType::bf16);
  for (std::int64_t t = 0; t < y.rows; ++t)
    for (std::int64_t o = 0; o < y.cols; ++o) {
      EXPECT_EQ(y.row(t)[o], ordered_dot(x.row(t), values.data() + o * x.cols, x.cols));
      EXPECT_EQ(rounded.row(t)[o], to_float(to_bf16(y.row(t)[o])));
    }
}

TEST(Linear, GivesTheSameBitsOnOneThreadAndOnTwo) {
  const Matrix x = random_matrix(9, 300, 5);
  const Weight w = random_weight(50, 300, 6);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Matrix one = linear(x, w, DType::f32);
  omp_set_num_threads(2);
  const Matrix two = linear(x, w, DType::f32);
  omp_set_num_threads(threads);
  EXPECT_EQ(one.data, two.data);
}

TEST(Linear, WidensEveryWeightType) {
  const Matrix x = random_matrix(2, 48, 7);
  const Weight bf16 = random_weight(3, 48, 8);
  const std::vector<float> values = values_of(bf16);
  std::vector<F16> halves;
  for (const float value : values) halves.push_back(to_f16(value));  // exact here: 8 bits, near 1
  const Weight f16{DType::f16, 3, 48, halves.data(), nullptr};
  const Weight f32{DType::f32, 3, 48, values.data(), nullptr};
  const Matrix expected = linear(x, bf16, DType::f32);
  EXPECT_EQ(linear(x, f32, DType::f32).data, expected.data);
  EXPECT_EQ(linear(x, f16, DType::f32).data, expected.data);
  EXPECT_EQ(linear(x, testing::read_weight(bf16), DType::f32).data, expected.data);
}

TEST(Linear, HasNoRowsForNoTokens) {
  EXPECT_TRUE(linear(Matrix(0, 8), random_weight(4, 8, 9), DType::f32).data.empty());
}

TEST(Linear, RefusesOtherSizesAndTypes) {
  const Matrix x = random_matrix(2, 8, 10);
  EXPECT_THROW(linear(x, random_weight(3, 9, 11), DType::f32), std::invalid_argument);
  const std::vector<std::byte> bytes(24);
  EXPECT_THROW(linear(x, {DType::e4m3, 3, 8, bytes.data(), nullptr}, DType::f32),
               std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
