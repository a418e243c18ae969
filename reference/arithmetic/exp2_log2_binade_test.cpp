#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/function_error.h"
#include "reference/arithmetic/log2.h"

namespace mlacheck {
namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

// All 2^23 fractions: x in [-2, -1) visits every fraction at which exp2 of an x beyond 1 is
// evaluated.
TEST(Binade, Exp2) {
  EXPECT_LE(worst_error(exp2_f32, mpfr_exp2, bits(-1), bits(-2)).ulps, kExp2Ulps);
}

// x in [1, 2): the binade where nothing hides the polynomial's error.
TEST(Binade, Log2) {
  EXPECT_LE(worst_error(log2_f32, mpfr_log2, bits(1) + 1, bits(2)).ulps, kLog2Ulps);
}

}  // namespace
}  // namespace mlacheck
