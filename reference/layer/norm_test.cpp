#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "reference/layer/layer_norm.h"
#include "reference/layer/layer_testing.h"
#include "reference/layer/rms_norm.h"

namespace mlacheck {
namespace {

using testing::is_bf16;
using testing::normals;

using Vector = std::vector<float>;

long double mean_of(const Vector& x) {
  long double sum = 0;
  for (const float element : x) sum += static_cast<long double>(element);
  return sum / static_cast<long double>(x.size());
}

// Centred: LayerNorm without weight and bias; otherwise RMSNorm.
std::vector<long double> exact_normed(const Vector& x, long double eps, bool centred) {
  const long double mean = centred ? mean_of(x) : 0;
  std::vector<long double> y;
  long double squares = 0;
  for (const float element : x) {
    y.push_back(static_cast<long double>(element) - mean);
    squares += y.back() * y.back();
  }
  const long double rms = std::sqrt(squares / static_cast<long double>(x.size()) + eps);
  for (long double& element : y) element /= rms;
  return y;
}

Vector rms(const Vector& x, const Vector& w, float eps, int roundings) {
  Vector y(x.size());
  rms_norm(x, w, eps, roundings, y);
  return y;
}

Vector layer(const Vector& x, const Vector& w, const Vector& b, float eps, DType dtype) {
  Vector y(x.size());
  layer_norm(x, w, b, eps, dtype, y);
  return y;
}

// Largest |y - exact * w - b| in units of |exact * w| + |b| + |exact|.
double worst(const Vector& y, const std::vector<long double>& exact, const Vector& w,
             const Vector& b) {
  long double result = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto weight = static_cast<long double>(w[i]);
    const auto bias = static_cast<long double>(b[i]);
    const long double error = static_cast<long double>(y[i]) - (exact[i] * weight + bias);
    result = std::max(result, std::fabs(error) / (std::fabs(exact[i] * weight) + std::fabs(bias) +
                                                  std::fabs(exact[i])));
  }
  return static_cast<double>(result);
}

class Norms : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::size_t n = GetParam();
  Vector x = normals(n, 0.5f, 1);
  Vector w = normals(n, 1, 2);
  Vector b = normals(n, 1, 3);
  Vector none = Vector(n, 0.0f);
};

TEST_P(Norms, RmsNormIsTheFormula) {
  const std::vector<long double> exact = exact_normed(x, 1e-6L, false);
  EXPECT_LT(worst(rms(x, w, 1e-6f, 0), exact, w, none), 1e-6);
  EXPECT_GT(worst(rms(x, w, 1e-3f, 0), exact, w, none), 1e-4);  // a wrong eps
}

TEST_P(Norms, LayerNormIsTheFormula) {
  for (float& element : x) element += 2;
  const std::vector<long double> exact = exact_normed(x, 1e-6L, true);
  EXPECT_LT(worst(layer(x, w, b, 1e-6f, DType::f32), exact, w, b), 1e-5);
  EXPECT_GT(worst(layer(x, w, none, 1e-6f, DType::f32), exact, w, b), 1e-2);  // no bias
  EXPECT_GT(worst(rms(x, w, 1e-6f, 0), exact, w, none), 1e-2);                // no mean
}

INSTANTIATE_TEST_SUITE_P(Sizes, Norms, ::testing::Values(7, 16, 128, 512, 2048));

TEST(RmsNorm, RoundsWhereItIsAskedTo) {
  const Vector x = normals(512, 1, 4);
  Vector w = normals(512, 1, 5);
  for (float& weight : w) weight = to_float(to_bf16(weight));
  const Vector plain = rms(x, w, 1e-6f, 0);
  const Vector once = rms(x, w, 1e-6f, 1);
  const Vector twice = rms(x, w, 1e-6f, 2);
  const Vector unit = rms(x, Vector(512, 1.0f), 1e-6f, 1);
  int twice_differs = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(once[i], to_float(to_bf16(plain[i])));
    EXPECT_EQ(twice[i], to_float(to_bf16(unit[i] * w[i])));
    twice_differs += once[i] != twice[i];
  }
  EXPECT_GT(twice_differs, 50);
}

TEST(LayerNorm, RoundsOnceToBf16) {
  const Vector x = normals(128, 1, 6);
  const Vector w = normals(128, 1, 7);
  const Vector b = normals(128, 1, 8);
  const Vector plain = layer(x, w, b, 1e-6f, DType::f32);
  const Vector rounded = layer(x, w, b, 1e-6f, DType::bf16);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(rounded[i], to_float(to_bf16(plain[i])));
}

TEST(Norms, WorkInPlaceAndOnZeros) {
  Vector x = normals(64, 1, 9);
  const Vector w(64, 1.0f);
  const Vector expected = rms(x, w, 1e-6f, 0);
  rms_norm(x, w, 1e-6f, 0, x);
  EXPECT_EQ(x, expected);
  const Vector zeros(64, 0.0f);
  EXPECT_EQ(rms(zeros, w, 1e-6f, 2), zeros);
  EXPECT_EQ(layer(zeros, w, zeros, 1e-6f, DType::bf16), zeros);
}

TEST(Norms, RefuseUnequalSizesAndUnknownRoundings) {
  Vector x(8), w(7), y(8);
  EXPECT_THROW(rms_norm(x, w, 1e-6f, 0, y), std::invalid_argument);
  EXPECT_THROW(rms_norm(x, x, 1e-6f, 3, y), std::invalid_argument);
  EXPECT_THROW(layer_norm(x, x, w, 1e-6f, DType::f32, y), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
