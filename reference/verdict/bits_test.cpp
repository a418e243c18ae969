#include "reference/verdict/bits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "reference/formats/bf16.h"

namespace mlacheck {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::int64_t, 3> kShape = {2, 3, 4};

TEST(CompareBits, EqualArraysPass) {
  const std::vector<float> a(24, 1.5f);
  const Finding finding = compare_bits("out", a.data(), a.data(), DType::f32, kShape);
  EXPECT_EQ(finding.status, Status::pass);
  EXPECT_EQ(finding.elements, 24);
  const std::array<std::int64_t, 2> empty = {0, 7};
  EXPECT_EQ(compare_bits("out", nullptr, nullptr, DType::f32, empty).status, Status::pass);
}

TEST(CompareBits, NamesTheFirstDifferenceAndItsNeighbours) {
  std::vector<float> want(24), got;
  for (std::size_t i = 0; i < 24; ++i) want[i] = static_cast<float>(i);
  got = want;
  got[17] = 17.5f;
  got[20] = -1;
  const Finding finding = compare_bits("out", want.data(), got.data(), DType::f32, kShape);
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.failed, 2);
  EXPECT_THAT(finding.detail, HasSubstr("2 of 24 f32 elements differ, the first at [1, 1, 1]"));
  EXPECT_THAT(finding.detail, HasSubstr("expected 17 (0x41880000), got 17.5 (0x418c0000)"));
  EXPECT_THAT(finding.detail, HasSubstr("14 15 16 >17< 18 19 20, got 14 15 16 >17.5< 18 19 -1"));
  EXPECT_THAT(finding.detail, HasSubstr("the furthest off at [1, 2, 0]: expected 20, got -1"));
}

TEST(CompareBits, TakesNanForTheFurthestOff) {
  const std::vector<float> want(24, 1);
  std::vector<float> got = want;
  got[3] = 1e30f;
  got[5] = std::nanf("");
  got[6] = 2;
  EXPECT_THAT(compare_bits("out", want.data(), got.data(), DType::f32, kShape).detail,
              HasSubstr("the furthest off at [0, 1, 1]: expected 1, got nan"));
}

TEST(CompareBits, TellsZerosAndNarrowFormatsApart) {
  const std::vector<float> plus = {0.0f}, minus = {-0.0f};
  const std::array<std::int64_t, 1> one = {1};
  EXPECT_EQ(compare_bits("x", plus.data(), minus.data(), DType::f32, one).status, Status::fail);
  const Bf16 a = to_bf16(1), b = to_bf16(2);
  EXPECT_THAT(compare_bits("x", &a, &b, DType::bf16, one).detail,
              HasSubstr("expected 1 (0x3f80), got 2 (0x4000)"));
  const std::int32_t c = 5, d = -1;
  EXPECT_THAT(compare_bits("x", &c, &d, DType::i32, one).detail,
              HasSubstr("expected 5 (0x00000005), got -1 (0xffffffff)"));
}

}  // namespace
}  // namespace mlacheck
