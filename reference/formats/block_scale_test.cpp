#include "reference/formats/block_scale.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "reference/formats/bf16.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Whether s is the smallest power of two with amax <= 448 s, in exact arithmetic.
bool is_smallest_power(float s, double amax) {
  int exponent = 0;
  return std::frexp(s, &exponent) == 0.5f && amax <= 448.0 * static_cast<double>(s) &&
         amax > 224.0 * static_cast<double>(s);
}

TEST(P2Scale, IsTheSmallestPowerForEveryFraction) {
  for (std::uint32_t fraction = 0; fraction < (1u << 23); ++fraction) {
    const auto amax = std::bit_cast<float>(0x3f800000u + fraction);
    ASSERT_TRUE(is_smallest_power(p2_scale(amax, 0), static_cast<double>(amax))) << amax;
  }
}

TEST(P2Scale, IsTheSmallestPowerForEveryBf16) {
  for (std::uint32_t code = 0x0880; code < 0x7f80;
       ++code) {  // from 2^-110, where amax / 448 is normal
    const float amax = to_float(Bf16{static_cast<std::uint16_t>(code)});
    ASSERT_TRUE(is_smallest_power(p2_scale(amax, 0), static_cast<double>(amax))) << amax;
  }
}

TEST(P2Scale, ByHand) {
  EXPECT_EQ(p2_scale(448.0f, 1e-4f), 1.0f);
  EXPECT_EQ(p2_scale(std::nextafterf(448.0f, 500.0f), 1e-4f), 2.0f);
  EXPECT_EQ(p2_scale(1.0f, 1e-4f), 0x1p-8f);
  EXPECT_EQ(p2_scale(0.0f, 1e-4f), 0x1p-22f);   // 1e-4 / 448 = 2.2e-7
  EXPECT_EQ(p2_scale(0.0f, 1e-10f), 0x1p-42f);  // the floor of vLLM's queries
  EXPECT_EQ(p2_scale(kInfinity, 1e-4f), kInfinity);
  EXPECT_EQ(p2_scale(std::nanf(""), 1e-4f), 0x1p-22f);
  EXPECT_EQ(p2_scale(0.0f, 0.0f), 0.0f);
}

// max(amax / 448, 1e-4), the floor on the scale, is the floor 0.0448 on amax.
TEST(P2Scale, FloorOnTheScaleIsAFloorOnAmax) {
  for (std::uint32_t bits = 0x3b000000u; bits < 0x41000000u; bits += 97) {
    const auto amax = std::bit_cast<float>(bits);
    const double ratio = std::fmax(static_cast<double>(amax) / 448.0, 1e-4);
    ASSERT_TRUE(is_smallest_power(p2_scale(amax, 448.0f * 1e-4f), 448.0 * ratio)) << amax;
  }
  EXPECT_EQ(p2_scale(0.0f, 448.0f * 1e-4f), 0x1p-13f);
}

TEST(ArbScale, TheSpellingMatters) {
  int different = 0;
  for (std::uint32_t fraction = 0; fraction < (1u << 23); ++fraction) {
    const auto amax = std::bit_cast<float>(0x3f800000u + fraction);
    const float divided = arb_scale(amax, 0, Division::divide);
    const float multiplied = arb_scale(amax, 0, Division::multiply_by_reciprocal);
    ASSERT_EQ(divided, static_cast<float>(static_cast<double>(amax) / 448.0));
    if (divided != multiplied) ++different;
  }
  EXPECT_EQ(different, 4'593'760);
}

TEST(ArbScale, ByHand) {
  EXPECT_EQ(arb_scale(896.0f, 1e-4f, Division::divide), 2.0f);
  EXPECT_EQ(arb_scale(0.0f, 1e-4f, Division::divide), 1e-4f / 448.0f);
  EXPECT_EQ(arb_scale(0.0f, 0.0f, Division::divide), 0.0f);
  EXPECT_EQ(arb_scale(kInfinity, 1e-4f, Division::divide), kInfinity);
}

TEST(LargestMagnitude, PassesOverNan) {
  const std::vector<float> x = {1.0f, -3.0f, std::nanf(""), 2.0f};
  EXPECT_EQ(largest_magnitude(x.data(), 4), 3.0f);
  EXPECT_EQ(largest_magnitude(x.data() + 2, 1), 0.0f);
  EXPECT_EQ(largest_magnitude(x.data(), 0), 0.0f);
}

TEST(Quantise, ByHand) {
  const std::vector<float> x = {448.0f, -1.0f, 0.0f, 0x1p-9f, 1000.0f, std::nanf("")};
  std::vector<E4m3> q(x.size());
  quantise(x.data(), 6, 1.0f, Division::divide, q.data());
  EXPECT_EQ(q, (std::vector<E4m3>{{0x7e}, {0xb8}, {0x00}, {0x01}, {0x7e}, {0x7f}}));
  quantise(x.data(), 6, 2.0f, Division::divide, q.data());
  EXPECT_EQ(q, (std::vector<E4m3>{{0x76}, {0xb0}, {0x00}, {0x00}, {0x7e}, {0x7f}}));
}

// x / s and x * (1 / s) part where one of them falls on a tie of e4m3: some e4m3 must differ under
// ARB, none under P2.
TEST(Quantise, TheSpellingMattersUnderArbAlone) {
  int arb_different = 0, p2_different = 0;
  for (std::uint32_t a = 1; a < 2000; ++a) {
    const float amax = 1.0f + static_cast<float>(a) * 0x1p-11f;
    for (float middle : {17.0f, 26.0f, 38.0f, 57.0f, 86.0f, 129.0f, 194.0f, 290.0f, 436.0f}) {
      const auto differs = [&](float scale) {
        E4m3 divided{}, multiplied{};
        const float x = middle * scale;
        quantise(&x, 1, scale, Division::divide, &divided);
        quantise(&x, 1, scale, Division::multiply_by_reciprocal, &multiplied);
        return divided != multiplied;
      };
      arb_different += differs(arb_scale(amax, 0, Division::divide));
      p2_different += differs(p2_scale(amax, 0));
    }
  }
  EXPECT_GT(arb_different, 0);
  EXPECT_EQ(p2_different, 0);
}

}  // namespace
}  // namespace mlacheck
