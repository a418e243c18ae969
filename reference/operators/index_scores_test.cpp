#include "reference/operators/index_scores.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/formats/e4m3.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
long double wide(float x) { return static_cast<long double>(x); }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// A problem that owns its storage. Keys lie in pages of 8 rows, values first, then one scale a row;
// logical block b of request r is page table[r][b].
struct Case {
  std::int64_t tokens = 4, heads = 5, dim = 24, keys = 30, block = 8;
  DType dtype = DType::f32;
  bool scaled = true;
  std::vector<float> q, key_rows, scales, weights;  // key_rows, scales: by physical slot, 10 pages
  std::vector<std::int32_t> table = {3, 0, 9, 4, 7, 7, 2, 1};
  std::vector<std::int32_t> request = {0, 1, 1, 0};
  std::vector<std::int32_t> begin = {0, 3, 29, 12};
  std::vector<std::int32_t> end = {30, 17, 30, 12};
  std::vector<std::byte> q_bytes, pages;

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto noise = [&](std::int64_t n, DType type) {
      std::vector<float> values(at(n));
      for (float& x : values)
        x = round_to(type, static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31f);
      return values;
    };
    q = noise(tokens * heads * dim, dtype);
    key_rows = noise(10 * block * dim, dtype);
    scales = noise(10 * block, DType::f32);
    weights = noise(tokens * heads, DType::f32);
  }

  std::int64_t slot(std::int64_t t, std::int64_t s) const {
    return table[at(request[at(t)] * 4 + s / block)] * block + s % block;
  }

  IndexScoresProblem problem() {
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    q_bytes.resize(at(tokens * heads * dim * element));
    store_row(q.data(), dtype, tokens * heads * dim, q_bytes.data());
    const std::int64_t page = block * (dim * element + 4);
    pages.assign(at(10 * page), std::byte{0xff});
    for (std::int64_t s = 0; s < 10 * block; ++s) {
      std::byte* base = pages.data() + s / block * page;
      store_row(key_rows.data() + s * dim, dtype, dim, base + s % block * dim * element);
      std::memcpy(base + block * dim * element + s % block * 4, &scales[at(s)], 4);
    }
    IndexScoresProblem p;
    p.tokens = tokens;
    p.heads = heads;
    p.dim = dim;
    p.key_count = keys;
    p.q = {q_bytes.data(), dtype, heads * dim, dim};
    p.weights = weights.data();
    p.keys = {pages.data(),
              dtype,
              10 * block,
              block,
              page,
              dim * element,
              scaled ? block * dim * element : -1};
    p.block_table = table.data();
    p.requests = 2;
    p.block_table_stride = 4;
    p.block_size = block;
    p.request = request.data();
    p.key_begin = begin.data();
    p.key_end = end.data();
    return p;
  }
};

// The formula in long double; at most 1 where all scores are right.
long double worst_ratio(const Case& c, const std::vector<float>& scores) {
  long double worst = 0;
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t s = 0; s < c.keys; ++s) {
      const float got = scores[at(t * c.keys + s)];
      if (s < c.begin[at(t)] || s >= c.end[at(t)]) {
        if (got != -kInfinity) return std::numeric_limits<long double>::infinity();
        continue;
      }
      long double sum = 0, magnitude = 0;
      for (std::int64_t h = 0; h < c.heads; ++h) {
        long double dot = 0, absolute = 0;
        for (std::int64_t d = 0; d < c.dim; ++d) {
          const long double product = wide(c.q[at((t * c.heads + h) * c.dim + d)]) *
                                      wide(c.key_rows[at(c.slot(t, s) * c.dim + d)]);
          dot += product;
          absolute += std::abs(product);
        }
        sum += wide(c.weights[at(t * c.heads + h)]) * std::max(0.0L, dot);
        magnitude += std::abs(wide(c.weights[at(t * c.heads + h)])) * absolute;
      }
      const long double scale = c.scaled ? wide(c.scales[at(c.slot(t, s))]) : 1;
      const long double radius = static_cast<long double>(c.dim / 16 + 8 + c.heads) * 0x1p-24L *
                                 magnitude * std::abs(scale);
      const long double ratio = std::abs(wide(got) - scale * sum) / radius;
      worst = ratio <= worst ? worst : ratio;
    }
  return worst;
}

TEST(IndexScores, AgreeWithTheFormula) {
  std::uint64_t seed = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::e4m3})
    for (const bool scaled : {false, true})
      for (const std::int64_t heads : {1, 5, 32, 64})
        for (const HeadReduction reduction : {HeadReduction::ordered, HeadReduction::sequential}) {
          Case c;
          c.dtype = dtype;
          c.scaled = scaled;
          c.heads = heads;
          c.fill(++seed);
          EXPECT_LE(worst_ratio(c, index_scores(c.problem(), reduction)), 1)
              << name_of(dtype) << ' ' << scaled << ' ' << heads;
        }
}

TEST(IndexScores, TheComparisonSeesFaults) {
  Case c;
  c.fill(77);
  using Fault = std::function<void(Case&, IndexScoresProblem&)>;
  const std::pair<const char*, Fault> faults[] = {
      {"no scale", [](auto&, auto& p) { p.keys.scale_offset = -1; }},
      {"scale of the neighbour", [](auto&, auto& p) { p.keys.scale_offset -= 4; }},
      {"no block table", [](auto&, auto& p) { p.block_table = nullptr; }},
      {"request 0", [](auto&, auto& p) { p.request = nullptr; }},
      {"no begin", [](auto&, auto& p) { p.key_begin = nullptr; }},
      {"no end", [](auto&, auto& p) { p.key_end = nullptr; }},
      {"short dot", [](auto&, auto& p) { p.dim -= 1; }},
      {"head lost", [](auto& d, auto&) { d.weights[2] = 0; }},
      {"weights of the next row",
       [](auto&, auto& p) {
         p.tokens = 3;
         p.weights += 5;
       }},
      {"interleaved pages", [](auto&, auto& p) { p.keys.row_stride += 4; }},
  };
  for (const auto& [name, fault] : faults) {
    Case mutated = c;
    IndexScoresProblem problem = mutated.problem();
    fault(mutated, problem);
    std::vector<float> scores = index_scores(problem);
    scores.resize(at(c.tokens * c.keys), -kInfinity);
    EXPECT_GT(worst_ratio(c, scores), 1) << name;
  }
  // The ReLU left out: max(0, x) - max(0, -x) = x, from a second run with -q.
  Case negated = c;
  for (float& x : negated.q) x = -x;
  std::vector<float> linear = index_scores(c.problem());
  const std::vector<float> rest = index_scores(negated.problem());
  for (std::size_t i = 0; i < linear.size(); ++i)
    if (linear[i] != -kInfinity) linear[i] -= rest[i];
  EXPECT_GT(worst_ratio(c, linear), 1);
}

// Every rounding written out for one key.
TEST(IndexScores, RoundingsAreInTheStatedOrder) {
  for (const HeadReduction reduction : {HeadReduction::ordered, HeadReduction::sequential}) {
    Case c;
    c.heads = 37;
    c.dim = 128;
    c.fill(6);
    const std::vector<float> scores = index_scores(c.problem(), reduction);
    std::vector<float> terms;
    const std::int64_t slot = c.slot(1, 9);
    for (std::int64_t h = 0; h < 37; ++h) {
      const float dot =
          ordered_dot(c.q.data() + (37 + h) * 128, c.key_rows.data() + slot * 128, 128);
      terms.push_back(c.weights[at(37 + h)] * (dot > 0 ? dot : 0.0f));
    }
    float sequential = 0;
    for (const float term : terms) sequential += term;
    const float ordered = ordered_sum(terms.data(), 37);
    ASSERT_NE(ordered, sequential);
    const float sum = reduction == HeadReduction::ordered ? ordered : sequential;
    EXPECT_EQ(bits(scores[at(c.keys + 9)]), bits(sum * c.scales[at(slot)]));
  }
}

TEST(IndexScores, NanReachesTheScoreAndNoOther) {
  Case c;
  c.fill(2);
  const std::vector<float> clean = index_scores(c.problem());
  const std::int64_t slot = c.slot(0, 20);
  c.key_rows[at(slot * c.dim + 3)] = -std::nanf("");
  const std::vector<float> scores = index_scores(c.problem());
  int changed = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) changed += bits(scores[i]) != bits(clean[i]);
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(bits(scores[20]), 0x7fffffffu);
}

// Inf - Inf: the NaN that the CPU makes is not the canonical one.
TEST(IndexScores, NanIsCanonical) {
  Case c;
  c.fill(2);
  c.q[0] = c.q[1] = 1.0f;
  c.key_rows[at(c.slot(0, 20) * c.dim)] = kInfinity;
  c.key_rows[at(c.slot(0, 20) * c.dim + 1)] = -kInfinity;
  EXPECT_EQ(bits(index_scores(c.problem())[20]), 0x7fffffffu);
}

TEST(IndexScores, KeysOutsideTheRangesAreNeverLookedAt) {
  Case c;
  c.fill(3);
  const std::vector<float> clean = index_scores(c.problem());
  std::vector<bool> used(80);
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t s = c.begin[at(t)]; s < c.end[at(t)]; ++s) used[at(c.slot(t, s))] = true;
  for (std::int64_t i = 0; i < 80; ++i)
    if (!used[at(i)]) c.key_rows[at(i * c.dim)] = c.scales[at(i)] = std::nanf("");
  c.table.back() = -1;  // no key of request 1 in its last block but row 2's
  c.end[2] = 29;
  const std::vector<float> poisoned = index_scores(c.problem());
  std::vector<float> expected = clean;
  expected[2 * 30 + 29] = -kInfinity;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(bits(expected[i]), bits(poisoned[i])) << i;
}

TEST(IndexScores, NeitherPagesNorThreadsChangeABit) {
  Case c;
  c.fill(4);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<float> expected = index_scores(c.problem());
  omp_set_num_threads(2);
  const std::vector<float> two = index_scores(c.problem());
  // Row 0's keys in logical order, without a table.
  std::vector<float> flat(at(30 * c.dim));
  for (std::int64_t s = 0; s < 30; ++s)
    std::copy_n(c.key_rows.begin() + c.slot(0, s) * c.dim, c.dim, flat.begin() + s * c.dim);
  c.scaled = false;
  IndexScoresProblem problem = c.problem();
  const std::vector<float> unscaled = index_scores(problem);
  problem.tokens = 1;
  problem.block_table = nullptr;
  problem.keys = flat_rows(flat.data(), DType::f32, 30, c.dim);
  const std::vector<float> row = index_scores(problem);
  omp_set_num_threads(threads);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(bits(expected[i]), bits(two[i]));
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(bits(row[i]), bits(unscaled[i]));
  EXPECT_NE(unscaled, expected);
}

TEST(IndexScores, NoTokensNoKeys) {
  EXPECT_TRUE(index_scores({}).empty());
  Case c;
  c.fill(1);
  IndexScoresProblem problem = c.problem();
  problem.key_count = 0;
  problem.key_begin = problem.key_end = nullptr;
  EXPECT_TRUE(index_scores(problem).empty());
}

TEST(IndexScores, RefusesWhatContradicts) {
  using Change = std::function<void(Case&, IndexScoresProblem&)>;
  const std::pair<const char*, Change> changes[] = {
      {"tokens", [](auto&, auto& p) { p.tokens = -1; }},
      {"heads", [](auto&, auto& p) { p.heads = 0; }},
      {"dim", [](auto&, auto& p) { p.dim = 0; }},
      {"key_count", [](auto&, auto& p) { p.key_count = -1; }},
      {"key_count: expected 0 .. 2^31",
       [](auto&, auto& p) { p.key_count = std::numeric_limits<std::int64_t>::max(); }},
      {"block_size: expected 1 .. 2^31",
       [](auto&, auto& p) { p.block_size = std::numeric_limits<std::int64_t>::max(); }},
      {"q.head_stride", [](auto&, auto& p) { p.q.head_stride = 23; }},
      {"keys.page_stride: expected >= 804, got 800",
       [](auto&, auto& p) { p.keys.scale_offset += 4; }},
      {"keys.row_stride", [](auto&, auto& p) { p.keys.row_stride = 92; }},
      {"weights", [](auto&, auto& p) { p.weights = nullptr; }},
      {"block_size", [](auto&, auto& p) { p.block_size = 0; }},
      {"block_table_stride: expected 4 .. 2^31, got 3",
       [](auto&, auto& p) { p.block_table_stride = 3; }},
      {"block_table_stride: expected 4 .. 2^31, got 9223372036854775807",
       [](auto&, auto& p) { p.block_table_stride = std::numeric_limits<std::int64_t>::max(); }},
      {"requests: expected >= 1, got 0", [](auto&, auto& p) { p.requests = 0; }},
      {"request[1]: expected 0 .. 0, got 1", [](auto&, auto& p) { p.requests = 1; }},
      {"request[2]: expected 0 .. 1, got 2147483647",
       [](auto& c, auto&) { c.request[2] = std::numeric_limits<std::int32_t>::max(); }},
      {"key_begin[1]: expected 0 .. 30, got -3", [](auto& c, auto&) { c.begin[1] = -3; }},
      {"key_end[0]: expected 0 .. 30, got 31", [](auto& c, auto&) { c.end[0] = 31; }},
      {"request[3]: expected 0 .. 1, got -1", [](auto& c, auto&) { c.request[3] = -1; }},
      {"key 24 of row 0: expected a slot in [0, 80), got -8",
       [](auto& c, auto&) { c.table[3] = -1; }},
      {"key 24 of row 0: expected a slot in [0, 80), got 80",
       [](auto& c, auto&) { c.table[3] = 10; }},
  };
  for (const auto& [message, change] : changes) {
    Case c;
    c.fill(1);
    IndexScoresProblem problem = c.problem();
    EXPECT_NO_THROW(index_scores(problem));
    change(c, problem);
    try {
      index_scores(problem);
      ADD_FAILURE() << "accepted: " << message;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace mlacheck
