// The emulated bodies of the device layer's arithmetic.
#include "cuda/device/arithmetic.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/device/matrix.h"
#include "cuda/device/register.h"

namespace mlacheck::device {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::bit_cast<float>(0xffc12345u);

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(Arithmetic, ARegisterOfItsOwnHoldsTheValue) {
  for (const std::uint32_t value : {0u, 1u, 0x80000000u, 0xffffffffu})
    EXPECT_EQ(own_register(value), value);
}

TEST(Arithmetic, EveryNanIsTheGpus) {
  EXPECT_EQ(bits(add(kNan, 1.0f)), 0x7fffffffu);
  EXPECT_EQ(bits(add(kInf, -kInf)), 0x7fffffffu);
  EXPECT_EQ(bits(multiply(kInf, 0.0f)), 0x7fffffffu);
  EXPECT_EQ(bits(fused_multiply_add(1.0f, kInf, -kInf)), 0x7fffffffu);
  EXPECT_EQ(bits(divide(0.0f, 0.0f)), 0x7fffffffu);
  EXPECT_EQ(bits(maximum(kNan, 1.0f)), 0x7fffffffu);
  EXPECT_EQ(bits(maximum(1.0f, kNan)), 0x7fffffffu);
}

TEST(Arithmetic, RoundsOnce) {
  EXPECT_EQ(add(1.0f, 0x1p-24f), 1.0f);
  EXPECT_EQ(add(1.0f, 0x1.8p-24f), 1.0f + 0x1p-23f);
  // The product's low bits count.
  EXPECT_EQ(fused_multiply_add(1.0f + 0x1p-23f, 1.0f - 0x1p-23f, -1.0f), -0x1p-46f);
  EXPECT_EQ(add(multiply(1.0f + 0x1p-23f, 1.0f - 0x1p-23f), -1.0f), 0.0f);
  EXPECT_EQ(divide(1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(multiply(0x1p-126f, 0.5f), 0x1p-127f);
}

TEST(Arithmetic, TheMaximumOfZerosIsPositive) {
  EXPECT_EQ(bits(maximum(-0.0f, 0.0f)), 0u);
  EXPECT_EQ(bits(maximum(0.0f, -0.0f)), 0u);
  EXPECT_EQ(bits(maximum(-0.0f, -0.0f)), 0x80000000u);
  EXPECT_EQ(maximum(-kInf, -1.0f), -1.0f);
  EXPECT_EQ(maximum(3.0f, 2.0f), 3.0f);
}

TEST(Arithmetic, Divisors) {
  std::mt19937 random(5);
  const auto check = [](std::uint32_t n, std::uint32_t d) {
    ASSERT_EQ(Divisor(d).quotient(n), n / d) << n << " / " << d;
  };
  for (std::uint32_t d : {1u, 2u, 3u, 7u, 64u, 641u, 0x40000000u, 0x40000001u, 0x7fffffffu})
    for (std::uint32_t n : {0u, 1u, d - 1, d, d + 1, 0x7ffffffeu, 0x7fffffffu})
      if (n < 0x80000000u) check(n, d);
  for (int i = 0; i < 100'000; ++i)
    check(static_cast<std::uint32_t>(random()) >> 1,
          std::max(1u, static_cast<std::uint32_t>(random()) >> (1 + random() % 31)));
}

TEST(Arithmetic, Packs) {
  EXPECT_EQ(pack<Element::f16>(1.0f, -2.0f), 0xc0003c00u);
  EXPECT_EQ(pack<Element::bf16>(1.0f, -2.0f), 0xc0003f80u);
  EXPECT_EQ(pack<Element::f16>(kNan, 1e6f), 0x7c007fffu);
  EXPECT_EQ(pack<Element::bf16>(kNan, 0x1.01p0f), 0x3f807fffu);  // a tie, to even
}

}  // namespace
}  // namespace mlacheck::device
