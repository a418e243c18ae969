// fp32 to f16, bf16 and e4m3 against the slow model, on structured and on 2^26 stratified random
// inputs.

#include "reference/formats/rounding_cases.h"

#include <gtest/gtest.h>

namespace mlacheck {
namespace {

const SlowRounding& slow_rounding() {
  static const SlowRounding slow;
  return slow;
}

std::int64_t structured_differences(RoundedCodes (*convert)(float)) {
  static const std::vector<std::uint32_t> inputs = structured_inputs();
  return count_differences(
      static_cast<std::int64_t>(inputs.size()), [](std::int64_t i) { return inputs[i]; }, convert,
      [](float x) { return slow_rounding()(x); });
}

TEST(Rounding, StructuredInputs) { EXPECT_EQ(structured_differences(fast_rounding), 0); }

TEST(Rounding, StratifiedRandomInputs) {
  EXPECT_EQ(count_differences(
                kStratifiedInputs, [](std::int64_t i) { return stratified_input(i); },
                fast_rounding, [](float x) { return slow_rounding()(x); }),
            0);
}

TEST(Rounding, StratifiedInputsCoverEveryRunOf64) {
  for (std::uint64_t i : {0ull, 1ull, 12345678ull, (1ull << 26) - 1})
    EXPECT_EQ(stratified_input(i) / 64, i);
}

// Conversions with one fault each.

RoundedCodes f16_truncated(float x) {
  RoundedCodes codes = fast_rounding(x);
  codes.f16 = to_f16(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffffe000u)).bits;
  return codes;
}

RoundedCodes f16_overflows_above_65504(float x) {
  RoundedCodes codes = fast_rounding(x);
  if (std::fabs(x) > 65504.0f) codes.f16 = (codes.f16 & 0x8000u) | 0x7c00u;
  return codes;
}

RoundedCodes f16_subnormals_flushed(float x) {
  RoundedCodes codes = fast_rounding(x);
  if ((codes.f16 & 0x7c00u) == 0) codes.f16 &= 0x8000u;
  return codes;
}

RoundedCodes bf16_ties_away(float x) {
  RoundedCodes codes = fast_rounding(x);
  if (!std::isnan(x)) codes.bf16 = (std::bit_cast<std::uint32_t>(x) + 0x8000u) >> 16;
  return codes;
}

RoundedCodes bf16_through_f16(float x) {
  RoundedCodes codes = fast_rounding(x);
  codes.bf16 = to_bf16(to_float(to_f16(x))).bits;
  return codes;
}

RoundedCodes e4m3_through_f16(float x) {  // double rounding
  RoundedCodes codes = fast_rounding(x);
  codes.e4m3_saturating = to_e4m3_saturating(to_float(to_f16(x))).bits;
  return codes;
}

RoundedCodes e4m3_overflows_at_464(float x) {
  RoundedCodes codes = fast_rounding(x);
  if (std::fabs(x) == 464.0f) codes.e4m3 |= 0x7fu;
  return codes;
}

RoundedCodes nan_payload_kept(float x) {
  RoundedCodes codes = fast_rounding(x);
  if (std::isnan(x)) codes.bf16 = std::bit_cast<std::uint32_t>(x) >> 16;
  return codes;
}

TEST(Rounding, FaultyConversionsAreCaught) {
  EXPECT_GT(structured_differences(f16_truncated), 0);
  EXPECT_GT(structured_differences(f16_overflows_above_65504), 0);
  EXPECT_GT(structured_differences(f16_subnormals_flushed), 0);
  EXPECT_GT(structured_differences(bf16_ties_away), 0);
  EXPECT_GT(structured_differences(bf16_through_f16), 0);
  EXPECT_GT(structured_differences(e4m3_through_f16), 0);
  EXPECT_GT(structured_differences(e4m3_overflows_at_464), 0);
  EXPECT_GT(structured_differences(nan_payload_kept), 0);
}

}  // namespace
}  // namespace mlacheck
