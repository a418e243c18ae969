#include "reference/layer/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "reference/layer/layer_testing.h"

namespace mlacheck {
namespace {

using Vector128 = std::array<float, kHadamardDim>;

Vector128 random_vector(std::uint64_t seed) {
  Vector128 x;
  testing::Random random(seed);
  for (float& element : x) element = random.normal();
  return x;
}

TEST(Hadamard, IsTheSylvesterMatrix) {
  const Vector128 x = random_vector(1);
  Vector128 y = x;
  hadamard_128(y, DType::f32);
  for (std::uint32_t i = 0; i < kHadamardDim; ++i) {
    double exact = 0;
    for (std::uint32_t j = 0; j < kHadamardDim; ++j)
      exact += (std::popcount(i & j) % 2 == 0 ? 1 : -1) * static_cast<double>(x[j]);
    EXPECT_NEAR(static_cast<double>(y[i]), exact / std::sqrt(128.0), 2e-6) << i;
  }
}

TEST(Hadamard, IsItsOwnInverse) {
  const Vector128 x = random_vector(2);
  Vector128 y = x;
  hadamard_128(y, DType::f32);
  EXPECT_GT(std::fabs(y[1] - x[1]), 1e-3f);
  hadamard_128(y, DType::f32);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i], 2e-6f);
}

TEST(Hadamard, RoundsOnceToBf16) {
  Vector128 plain = random_vector(3);
  Vector128 rounded = plain;
  hadamard_128(plain, DType::f32);
  hadamard_128(rounded, DType::bf16);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(rounded[i], to_float(to_bf16(plain[i])));
}

}  // namespace
}  // namespace mlacheck
