#include "reference/oracle/index_scores_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/oracle/slow_model.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

struct IndexCase {
  std::vector<float> q, weights, keys;
  std::vector<std::int32_t> block_table, begin, end;
  IndexScoresProblem problem;

  explicit IndexCase(std::uint64_t seed) {
    const testing::CounterRandom random{seed};
    std::uint64_t i = 0;
    problem.tokens = 2;
    problem.heads = 5;
    problem.dim = 24;
    problem.key_count = 600;
    q.resize(2 * 5 * 24);
    weights.resize(2 * 5);
    keys.resize(640 * 24);
    for (std::vector<float>* values : {&q, &weights, &keys})
      for (float& x : *values) x = static_cast<float>(random.normal(i++));
    problem.q = {q.data(), DType::f32, 5 * 24, 24};
    problem.weights = weights.data();
    problem.keys = flat_rows(keys.data(), DType::f32, 640, 24);
    for (std::int32_t block = 0; block < 10; ++block) block_table.push_back(9 - block);
    problem.block_table = block_table.data();
    problem.block_table_stride = 10;
    problem.block_size = 64;
    begin = {0, 70};
    end = {600, 131};
    problem.key_begin = begin.data();
    problem.key_end = end.data();
  }
};

int disagreements(const IndexScoresOracle& oracle, const IndexScoresProblem& problem,
                  std::int64_t t) {
  int count = 0;
  for (std::int64_t s = oracle.begin; s < oracle.end; ++s) {
    const auto i = static_cast<std::size_t>(s - oracle.begin);
    const long double difference =
        std::abs(static_cast<long double>(oracle.score[i]) - slow_index_score(problem, t, s));
    count += !(difference <= static_cast<long double>(oracle.radius[i]));
  }
  return count;
}

TEST(IndexScoresOracle, AgreesWithTheSlowModelWithinItsRadius) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    IndexCase test(seed);
    for (std::int64_t t = 0; t < 2; ++t) {
      const IndexScoresOracle oracle = index_scores_oracle(test.problem, t);
      EXPECT_EQ(oracle.begin, test.begin[static_cast<std::size_t>(t)]);
      EXPECT_EQ(std::ssize(oracle.score), test.end[static_cast<std::size_t>(t)] - oracle.begin);
      EXPECT_EQ(disagreements(oracle, test.problem, t), 0);
    }
  }
}

TEST(IndexScoresOracle, RadiusSeesAWrongBlockAndOneUlpOfAWeight) {
  IndexCase test(4);
  const IndexScoresOracle oracle = index_scores_oracle(test.problem, 0);
  test.weights[0] = std::nextafter(test.weights[0], 9.0f);
  EXPECT_GT(disagreements(oracle, test.problem, 0), 200);  // where head 0 is positive
  test.weights[0] = std::nextafter(test.weights[0], -9.0f);
  EXPECT_EQ(disagreements(oracle, test.problem, 0), 0);
  std::swap(test.block_table[1], test.block_table[2]);
  EXPECT_GE(disagreements(oracle, test.problem, 0), 120);
}

TEST(IndexScoresOracle, NanReachesTheScoreAndAnInfiniteNegativeDotIsZero) {
  IndexCase test(5);
  const std::size_t first_row = 9 * 64 * 24;  // of logical key 0
  test.keys[first_row] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(index_scores_oracle(test.problem, 0).score[0]));
  test.keys[first_row] = std::numeric_limits<float>::infinity();
  for (std::size_t h = 0; h < 5; ++h) test.q[h * 24] = -1;
  const IndexScoresOracle oracle = index_scores_oracle(test.problem, 0);
  EXPECT_EQ(oracle.score[0], 0);
  EXPECT_TRUE(std::isfinite(oracle.radius[0]));
}

}  // namespace
}  // namespace mlacheck
