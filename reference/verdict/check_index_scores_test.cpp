#include "reference/verdict/check_index_scores.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/operators/index_scores.h"
#include "reference/oracle/test_problem.h"

namespace mlacheck {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CheckIndexScores : public ::testing::Test {
 protected:
  static constexpr std::int64_t kHeads = 32, kDim = 128, kKeys = 300;

  CheckIndexScores() : q(2 * kHeads * kDim), weights(2 * kHeads), keys(kKeys * kDim) {
    const testing::CounterRandom random{17};
    std::uint64_t i = 0;
    for (std::vector<float>* values : {&q, &weights, &keys})
      for (float& x : *values) x = round_to(DType::bf16, static_cast<float>(random.normal(i++)));
    problem.tokens = 2;
    problem.heads = kHeads;
    problem.dim = kDim;
    problem.key_count = kKeys;
    problem.q = {q.data(), DType::f32, kHeads * kDim, kDim};
    problem.weights = weights.data();
    problem.keys = flat_rows(keys.data(), DType::f32, kKeys, kDim);
    problem.key_end = key_end.data();
  }

  Status status(const std::vector<float>& scores) const {
    return check_index_scores(problem, contract, scores.data()).status;
  }

  // The scores in plain loops, with a fault if asked for.
  std::vector<float> naive(bool relu, std::int64_t dims) const {
    std::vector<float> scores(2 * kKeys, -kInfinity);
    for (std::int64_t t = 0; t < 2; ++t)
      for (std::int64_t s = 0; s < key_end[static_cast<std::size_t>(t)]; ++s) {
        float sum = 0;
        for (std::int64_t h = 0; h < kHeads; ++h) {
          float dot = 0;
          for (std::int64_t d = 0; d < dims; ++d)
            dot += q[static_cast<std::size_t>((t * kHeads + h) * kDim + d)] *
                   keys[static_cast<std::size_t>(s * kDim + d)];
          sum += weights[static_cast<std::size_t>(t * kHeads + h)] *
                 (relu ? std::max(dot, 0.0f) : dot);
        }
        scores[static_cast<std::size_t>(t * kKeys + s)] = sum;
      }
    return scores;
  }

  std::vector<float> q, weights, keys;
  std::vector<std::int32_t> key_end = {300, 77};
  IndexScoresProblem problem;
  NumericsContract contract = reference_contract();
};

TEST_F(CheckIndexScores, PassesTheReferenceInBothOrders) {
  EXPECT_EQ(status(index_scores(problem)), Status::pass);
  contract.index_heads.order = SumOrder::sequential;
  EXPECT_EQ(status(index_scores(problem, HeadReduction::sequential)), Status::pass);
  contract.index_dot.order = SumOrder::sequential;
  EXPECT_EQ(status(naive(true, kDim)), Status::pass);
}

TEST_F(CheckIndexScores, SeesFaults) {
  EXPECT_EQ(status(naive(false, kDim)), Status::fail);     // no ReLU
  EXPECT_EQ(status(naive(true, kDim - 1)), Status::fail);  // one dimension dropped
  std::vector<float> scores = index_scores(problem);
  scores[5] += 1e-2f;
  const Finding finding = check_index_scores(problem, contract, scores.data());
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.worst, (std::array<std::int64_t, 3>{0, 5, -1}));
  scores[5] = kNan;
  EXPECT_EQ(status(scores), Status::fail);
}

TEST_F(CheckIndexScores, HoldsTheMaskToTheContract) {
  std::vector<float> scores = index_scores(problem);
  scores[kKeys + 77] = 3;
  EXPECT_EQ(status(scores), Status::fail);
  contract.masks_scores = false;
  EXPECT_EQ(status(scores), Status::pass);
  scores[kKeys + 76] = -kInfinity;  // inside the range
  EXPECT_EQ(status(scores), Status::fail);
}

TEST_F(CheckIndexScores, SeesWhatIsWrittenOutsideOfARange) {
  constexpr std::uint32_t kBefore = 0xffffffff;
  const auto outside = [&](const std::vector<float>& scores) {
    return check_scores_outside(problem, scores.data(), kBefore);
  };
  const std::vector<float> masked = index_scores(problem);
  std::vector<float> scores = masked;
  for (std::size_t s = 77; s < kKeys; ++s) scores[kKeys + s] = std::bit_cast<float>(kBefore);
  EXPECT_EQ(outside(scores).status, Status::pass);
  EXPECT_EQ(outside(scores).elements, kKeys - 77);
  scores[kKeys + 77] = kNan;  // another one
  EXPECT_EQ(outside(scores).status, Status::fail);
  EXPECT_EQ(outside(scores).failed, 1);
  EXPECT_NE(to_string(outside(scores)).find("row 1 key 77"), std::string::npos);
  EXPECT_EQ(outside(masked).failed, kKeys - 77);
}

TEST_F(CheckIndexScores, PlacesNanAndInf) {
  keys[3 * kDim] = kNan;
  std::vector<float> scores = index_scores(problem);
  EXPECT_EQ(status(scores), Status::pass);
  scores[3] = 0;
  EXPECT_EQ(status(scores), Status::fail);
  contract.relu_drops_nan = true;
  EXPECT_EQ(status(scores), Status::pass);
  contract.relu_drops_nan = false;
  keys[3 * kDim] = kInfinity;
  EXPECT_EQ(status(index_scores(problem)), Status::pass);
}

TEST_F(CheckIndexScores, BoxesHoldTheStoredScores) {
  const std::vector<float> scores = index_scores(problem);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const IndexScoresOracle oracle = index_scores_oracle(problem, 0);
    const ScoreBoxes boxes = score_boxes(index_score_bounds(oracle, problem, contract), dtype);
    for (std::size_t s = 0; s < kKeys; ++s) {
      const auto stored = static_cast<double>(round_to(dtype, scores[s]));
      EXPECT_LE(std::abs(stored - boxes.score[s]), boxes.radius[s]);
      EXPECT_LT(boxes.radius[s], dtype == DType::f32 ? 2e-3 : 2);
    }
  }
}

}  // namespace
}  // namespace mlacheck
