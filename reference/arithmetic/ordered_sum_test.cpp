#include "reference/arithmetic/ordered_sum.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/arithmetic/dot_block.h"
#include "reference/arithmetic/instruction_set.h"
#include "reference/arithmetic/ordered_weighted_sums.h"

namespace mlacheck {
namespace {

// The definition once more, one number at a time.
float defined_sum(const std::vector<float>& x) {
  float lane[16] = {};
  for (std::size_t i = 0; i < x.size(); ++i) lane[i % 16] = lane[i % 16] + x[i];
  for (int half = 8; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = lane[l] + lane[l + half];
  return lane[0];
}

std::vector<float> products(const float* a, const float* b, std::int64_t n,
                            std::int64_t b_step = 1) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(a[i] * b[i * b_step]);
  return out;
}

float sequential_sum(const std::vector<float>& x) {
  float sum = 0;
  for (float value : x) sum += value;
  return sum;
}

// Which NaN comes out of a sum is the processor's choice.
std::uint32_t bits(float x) {
  return std::isnan(x) ? 0x7fffffffu : std::bit_cast<std::uint32_t>(x);
}

enum class Fill { ordinary, wide, subnormal, special };

// Reproducible numbers: ordinary in [-1, 1); wide with exponents -60 .. 59 (products included, no
// overflow); subnormal half ordinary, half below 2^-125; special ordinary with a few Inf, NaN and
// signed zeros.
class Numbers {
 public:
  explicit Numbers(Fill fill) : fill_(fill) {}

  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const auto word = static_cast<std::uint32_t>(state_ >> 32);
    const float ordinary = static_cast<float>(static_cast<std::int32_t>(word) >> 7) * 0x1p-24f;
    const int choice = static_cast<int>(word % 120);
    switch (fill_) {
      case Fill::ordinary:
        return ordinary;
      case Fill::wide:
        return std::ldexp(ordinary, choice - 60);
      case Fill::subnormal:
        return std::bit_cast<float>(word & 0x80ffffffu);
      case Fill::special:
        break;
    }
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 0.0f,
                                  -0.0f};
    return choice < 5 ? kSpecial[choice] : ordinary;
  }

  std::vector<float> take(std::int64_t n) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < n; ++i) out.push_back(next());
    return out;
  }

 private:
  Fill fill_;
  std::uint64_t state_ = 1;
};

class OrderedSum : public testing::TestWithParam<Fill> {};
INSTANTIATE_TEST_SUITE_P(Fills, OrderedSum,
                         testing::Values(Fill::ordinary, Fill::wide, Fill::subnormal,
                                         Fill::special));

TEST_P(OrderedSum, IsItsDefinition) {
  Numbers numbers(GetParam());
  for (std::int64_t n = 0; n <= 100; ++n) {
    const std::vector<float> a = numbers.take(n), b = numbers.take(n);
    EXPECT_EQ(bits(ordered_sum(a.data(), n)), bits(defined_sum(a))) << "n = " << n;
    EXPECT_EQ(bits(ordered_dot(a.data(), b.data(), n)),
              bits(defined_sum(products(a.data(), b.data(), n))))
        << "n = " << n;
  }
}

TEST_P(OrderedSum, ZerosAtTheEndChangeNoBit) {
  Numbers numbers(GetParam());
  for (std::int64_t n = 0; n <= 40; ++n)
    for (const float zero : {0.0f, -0.0f}) {
      std::vector<float> a = numbers.take(n), b = numbers.take(n);
      const float sum = ordered_sum(a.data(), n), dot = ordered_dot(a.data(), b.data(), n);
      a.resize(100, zero);
      b.resize(100, 1.0f);
      EXPECT_EQ(bits(ordered_sum(a.data(), 100)), bits(sum)) << "n = " << n;
      EXPECT_EQ(bits(ordered_dot(a.data(), b.data(), 100)), bits(dot)) << "n = " << n;
    }
}

// Of each size a whole tile, a part of one, and more than one block; of n also more than is taken
// at a time.
TEST_P(OrderedSum, BlocksOfDotsUnderEveryInstructionSet) {
  Numbers numbers(GetParam());
  constexpr float kUntouched = 12345;
  const InstructionSet best = instruction_set();
  for (const auto& [tokens, outputs, n] : {std::array<std::int64_t, 3>{0, 1, 8},
                                           {1, 1, 0},
                                           {1, 5, 15},
                                           {3, 4, 16},
                                           {4, 3, 33},
                                           {9, 18, 100},
                                           {66, 21, 47},
                                           {5, 6, 1024},
                                           {6, 5, 2077}}) {
    const std::int64_t x_stride = n + 3, y_stride = outputs + 2;
    const std::vector<float> x = numbers.take(tokens * x_stride), w = numbers.take(outputs * n);
    for (const InstructionSet set : instruction_sets()) {
      use_instruction_set(set);
      std::vector<float> y(static_cast<std::size_t>(tokens * y_stride), kUntouched);
      dot_block({.x = x.data(),
                 .x_stride = x_stride,
                 .tokens = tokens,
                 .w = w.data(),
                 .outputs = outputs,
                 .n = n,
                 .y = y.data(),
                 .y_stride = y_stride});
      for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t o = 0; o < y_stride; ++o)
          ASSERT_EQ(
              bits(y[static_cast<std::size_t>(t * y_stride + o)]),
              bits(o < outputs ? defined_sum(products(x.data() + t * x_stride, w.data() + o * n, n))
                               : kUntouched))
              << name_of(set) << ", n = " << n << ", dot " << t << ", " << o;
    }
  }
  use_instruction_set(best);
}

template <int R>
void expect_weighted_sums(Numbers& numbers, std::int64_t n, std::int64_t columns) {
  const std::int64_t w_stride = n + 1, v_stride = columns + 3, out_stride = columns + 2;
  const std::vector<float> w = numbers.take(R * w_stride), v = numbers.take(n * v_stride);
  constexpr float kUntouched = 12345;
  std::vector<float> out(static_cast<std::size_t>(R * out_stride), kUntouched);
  ordered_weighted_sums<R>(w.data(), w_stride, v.data(), v_stride, n, columns, out.data(),
                           out_stride);
  for (std::int64_t r = 0; r < R; ++r)
    for (std::int64_t c = 0; c < out_stride; ++c) {
      const float expected =
          c < columns ? defined_sum(products(w.data() + r * w_stride, v.data() + c, n, v_stride))
                      : kUntouched;
      ASSERT_EQ(bits(out[static_cast<std::size_t>(r * out_stride + c)]), bits(expected))
          << "n = " << n << ", row " << r << ", column " << c << " of " << columns;
    }
}

TEST_P(OrderedSum, WeightedSums) {
  Numbers numbers(GetParam());
  for (std::int64_t n = 0; n <= 100; ++n) {
    expect_weighted_sums<1>(numbers, n, n % 29);
    expect_weighted_sums<2>(numbers, n, 16);
    expect_weighted_sums<4>(numbers, n, n % 19);
  }
}

// What the tests above would say to another order: on ordinary numbers most sums then differ.
TEST(OrderedSumOrder, AnotherOrderShows) {
  Numbers numbers(Fill::ordinary);
  int sequential = 0, eight_lanes = 0;
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> x = numbers.take(100);
    const std::uint32_t sum = bits(ordered_sum(x.data(), 100));
    if (bits(sequential_sum(x)) != sum) ++sequential;
    float lane[8] = {};
    for (std::size_t k = 0; k < x.size(); ++k) lane[k % 8] += x[k];
    const float lanes =
        ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    if (bits(lanes) != sum) ++eight_lanes;
  }
  EXPECT_GT(sequential, 50);
  EXPECT_GT(eight_lanes, 50);
}

// A contracted product is another number: 1 + 2^-12 squared has a last bit that an fma would keep.
TEST(OrderedSumOrder, ProductsRoundBeforeTheyAreAdded) {
  std::vector<float> a(17, 0.0f), b(17, 0.0f);
  a[0] = 1, b[0] = -1;
  a[16] = b[16] = 1 + 0x1p-12f;
  EXPECT_EQ(ordered_dot(a.data(), b.data(), 17), 0x1p-11f);
  EXPECT_NE(std::fma(a[16], b[16], -1.0f), 0x1p-11f);
}

TEST(OrderedSumOrder, NegativeZerosSumToZero) {
  const std::vector<float> x(40, -0.0f);
  for (std::int64_t n = 0; n <= 40; ++n)
    EXPECT_EQ(bits(ordered_sum(x.data(), n)), 0u) << "n = " << n;
}

// Error: gamma(ceil(n / 16) + 4) sum |x|, n = 100: 11 additions, the first of each lane exact.
TEST(OrderedSumOrder, ErrorBound) {
  Numbers numbers(Fill::ordinary);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<float> x = numbers.take(100);
    double exact = 0, magnitude = 0;
    for (const float value : x) {
      exact += static_cast<double>(value);
      magnitude += std::fabs(static_cast<double>(value));
    }
    EXPECT_LE(std::fabs(static_cast<double>(ordered_sum(x.data(), 100)) - exact),
              11 * 0x1p-24 * 1.00001 * magnitude);
  }
}

}  // namespace
}  // namespace mlacheck
