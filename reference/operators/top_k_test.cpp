#include "reference/operators/top_k.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

using Indices = std::vector<std::int32_t>;

Indices top(const std::vector<float>& scores, std::int64_t begin, std::int64_t end,
            std::int64_t k) {
  Indices indices(static_cast<std::size_t>(k), -7);
  top_k(scores.data(), begin, end, k, indices.data());
  return indices;
}

Indices top(const std::vector<float>& scores, std::int64_t k) {
  return top(scores, 0, static_cast<std::int64_t>(scores.size()), k);
}

// The definition: a stable sort, best first, cut at k. `better` is the order of two scores.
template <typename Better>
Indices by_stable_sort(const std::vector<float>& scores, std::int64_t begin, std::int64_t end,
                       std::int64_t k, Better better) {
  Indices order(static_cast<std::size_t>(end - begin));
  std::iota(order.begin(), order.end(), static_cast<std::int32_t>(begin));
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return better(scores[static_cast<std::size_t>(a)], scores[static_cast<std::size_t>(b)]);
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  order.resize(static_cast<std::size_t>(k), -1);
  return order;
}

bool better_score(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return a > b;
}

TEST(TopK, AscendingAndPadded) {
  EXPECT_EQ(top({1, 5, 3, 4}, 2), (Indices{1, 3}));
  EXPECT_EQ(top({1, 5}, 4), (Indices{0, 1, -1, -1}));
  EXPECT_EQ(top({}, 2), (Indices{-1, -1}));
  EXPECT_EQ(top({1, 2, 3}, 0), Indices{});
  EXPECT_EQ(top({9, 9, 1, 3, 2, 9}, 2, 5, 2), (Indices{3, 4}));
  EXPECT_EQ(top({9, 9, 1}, 2, 2, 2), (Indices{-1, -1}));
}

TEST(TopK, TiesZerosNanInfinities) {
  EXPECT_EQ(top({2, 2, 2, 2}, 2), (Indices{0, 1}));
  EXPECT_EQ(top({-0.0f, 0.0f, -0.0f, 1}, 3), (Indices{0, 1, 3}));
  EXPECT_EQ(top({kNan, -kInfinity, kNan, -kNan}, 1), (Indices{1}));
  EXPECT_EQ(top({kNan, -kInfinity, -kNan, kNan}, 3), (Indices{0, 1, 2}));
  EXPECT_EQ(top({kInfinity, kNan, std::numeric_limits<float>::max(), kInfinity}, 2),
            (Indices{0, 3}));
  EXPECT_EQ(top({-0x1p-149f, 0x1p-149f, 0, -0.0f}, 3), (Indices{1, 2, 3}));
}

TEST(TopK, RefusesBadRanges) {
  const std::vector<float> scores(4);
  EXPECT_THROW(top(scores, -1, 2, 1), std::invalid_argument);
  EXPECT_THROW(top(scores, 2, 1, 1), std::invalid_argument);
  EXPECT_THROW(top_k(nullptr, 0, (std::int64_t{1} << 31) + 1, 1, nullptr), std::invalid_argument);
  EXPECT_THROW(top_k(scores.data(), 0, 4, -1, nullptr), std::invalid_argument);
}

// Few distinct scores, so that ties and the special values decide.
rc::Gen<float> a_score() {
  return rc::gen::element(0.0f, -0.0f, 1.0f, std::nextafter(1.0f, 2.0f), -1.0f, 0x1p-149f,
                          -0x1p-149f, kInfinity, -kInfinity, kNan, -kNan);
}

struct Draw {
  std::vector<float> scores;
  std::int64_t begin, end, k;
};

Draw draw() {
  Draw d;
  d.scores = *rc::gen::container<std::vector<float>>(a_score());
  const auto n = static_cast<std::int64_t>(d.scores.size());
  d.begin = *rc::gen::inRange<std::int64_t>(0, n + 1);
  d.end = *rc::gen::inRange<std::int64_t>(d.begin, n + 1);
  d.k = *rc::gen::inRange<std::int64_t>(0, n + 4);
  return d;
}

RC_GTEST_PROP(TopKProperty, IsAStableSort, ()) {
  const Draw d = draw();
  RC_ASSERT(top(d.scores, d.begin, d.end, d.k) ==
            by_stable_sort(d.scores, d.begin, d.end, d.k, better_score));
}

RC_GTEST_PROP(TopKProperty, IsAStableSortOfAnyBits, (const std::vector<std::uint32_t>& words)) {
  std::vector<float> scores;
  for (const std::uint32_t word : words) scores.push_back(std::bit_cast<float>(word * 2654435761u));
  const auto n = static_cast<std::int64_t>(scores.size());
  RC_ASSERT(top(scores, n / 2) == by_stable_sort(scores, 0, n, n / 2, better_score));
}

// The orders that kernels use by mistake: each is told apart by the same draws.
template <typename Better>
int disagreements(Better better) {
  int count = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const float values[] = {0.0f, -0.0f, 1.0f, -kInfinity, kNan};
    std::vector<float> scores;
    for (std::uint32_t i = 0; i < 12; ++i)
      scores.push_back(values[(seed * 2654435761u >> (2 * i)) % 5]);
    count += top(scores, 5) != by_stable_sort(scores, 0, 12, 5, better);
  }
  return count;
}

TEST(TopK, TheComparisonSeesFaults) {
  EXPECT_EQ(disagreements(better_score), 0);
  EXPECT_GT(disagreements([](float a, float b) {  // -0 below +0
              return better_score(a, b) || (a == b && !std::signbit(a) && std::signbit(b));
            }),
            0);
  EXPECT_GT(disagreements([](float a, float b) {  // NaN above all
              return std::isnan(a) ? !std::isnan(b) : !std::isnan(b) && a > b;
            }),
            0);
  EXPECT_GT(disagreements([](float a, float b) {  // NaN as -inf
              return (std::isnan(a) ? -kInfinity : a) > (std::isnan(b) ? -kInfinity : b);
            }),
            0);
  EXPECT_GT(disagreements([](float a, float b) { return better_score(-a, -b); }), 0);  // smallest
}

}  // namespace
}  // namespace mlacheck
