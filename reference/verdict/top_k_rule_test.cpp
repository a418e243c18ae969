#include "reference/verdict/top_k_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "reference/operators/top_k.h"
#include "reference/oracle/all_selections.h"

namespace mlacheck {
namespace {

using ::testing::HasSubstr;

std::vector<std::int32_t> indices_of(std::uint32_t selection, std::int64_t k, std::int64_t begin) {
  std::vector<std::int32_t> indices;
  for (std::int32_t i = 0; i < 32; ++i)
    if (((selection >> i) & 1u) != 0) indices.push_back(static_cast<std::int32_t>(begin) + i);
  indices.resize(static_cast<std::size_t>(k), -1);
  return indices;
}

RC_GTEST_PROP(TopKRule, AdmitsExactlyWhatBruteForceAdmits, ()) {
  const testing::Boxes boxes = *testing::small_boxes();
  const auto n = std::ssize(boxes.scores);
  const auto k = *rc::gen::inRange<std::int64_t>(0, 9);
  const auto answers = testing::all_admissible_selections(boxes, k);
  for (std::uint32_t selection = 0; selection < 1u << n; ++selection) {
    if (std::popcount(selection) > k) continue;
    const Finding finding = check_top_k(indices_of(selection, k, 100), 100, boxes.scores,
                                        boxes.radii, reference_contract());
    const bool admissible = std::find(answers.begin(), answers.end(), selection) != answers.end();
    RC_ASSERT((finding.status == Status::pass) == admissible);
    if (finding.worst[0] >= 0) RC_ASSERT(finding.ratio > 1);
  }
}

RC_GTEST_PROP(TopKRule, TheReferenceSelectsFromItsOwnScores, ()) {
  const auto small = *rc::gen::container<std::vector<int>>(rc::gen::inRange(-3, 4));
  std::vector<float> scores(small.begin(), small.end());
  for (float& score : scores)
    if (score == 3) score = std::numeric_limits<float>::quiet_NaN();
  const auto k = *rc::gen::inRange<std::int64_t>(0, 20);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(k));
  top_k(scores.data(), 0, std::ssize(scores), k, selected.data());
  RC_ASSERT(check_top_k_of_own_scores(selected, 0, scores, reference_contract()).status ==
            Status::pass);
}

class TopKChecks : public ::testing::Test {
 protected:
  Finding check(std::vector<std::int32_t> selected) const {
    return check_top_k(selected, 10, scores, radii, contract);
  }

  std::vector<double> scores = {5, 1, 4, 2, 3};
  std::vector<double> radii = {0, 0, 0, 0, 0};
  NumericsContract contract = reference_contract();
};

TEST_F(TopKChecks, NamesWhatIsWrongWithTheList) {
  EXPECT_EQ(check({10, 12, 14}).status, Status::pass);
  EXPECT_THAT(check({10, 12, 12}).detail, HasSubstr("twice"));
  EXPECT_THAT(check({10, 12, 15}).detail, HasSubstr("[10, 15)"));
  EXPECT_THAT(check({0, 2, 4}).detail, HasSubstr("[10, 15)"));  // relative, not absolute
  EXPECT_THAT(check({10, 12, -1}).detail, HasSubstr("[10, 15)"));
  EXPECT_THAT(check({10, 14, 12}).detail, HasSubstr("ascending"));
  EXPECT_THAT(check({10, 11, 12, 13, 14, 0}).detail, HasSubstr("padding"));
  EXPECT_EQ(check({10, 11, 12, 13, 14, -1}).status, Status::pass);
  contract.selection_order = SelectionOrder::any;
  EXPECT_EQ(check({10, 14, 12}).status, Status::pass);
}

TEST_F(TopKChecks, NamesThePairAndItsGap) {
  radii = {0.1, 0.1, 0.1, 0.1, 0.1};
  const Finding finding = check({10, 12, 13});
  EXPECT_EQ(finding.status, Status::fail);
  EXPECT_EQ(finding.worst, (std::array<std::int64_t, 3>{13, 14, -1}));
  EXPECT_DOUBLE_EQ(finding.ratio, 5);
  EXPECT_THAT(to_string(finding), HasSubstr("left out 14"));
  Finding of_many = finding;  // as a whole output's: no interval was asked, none is printed
  of_many.elements = 9;
  EXPECT_THAT(describe(of_many), ::testing::Not(HasSubstr("expected")));
  radii = {0, 0, 0, 0.5, 0.5};
  EXPECT_EQ(check({10, 12, 13}).status, Status::pass);  // the boxes touch
  radii = {0, 0, 0, 0.5, 0.49};
  EXPECT_EQ(check({10, 12, 13}).status, Status::fail);
}

TEST_F(TopKChecks, RanksNanByTheContract) {
  scores[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(check({10, 12, 14}).status, Status::pass);
  EXPECT_EQ(check({10, 11, 12}).status, Status::fail);
  EXPECT_EQ(check({10, 11, 12, 13, 14}).status, Status::pass);  // nothing else is left
  contract.nan_scores = NanScores::selected_first;
  EXPECT_EQ(check({10, 12, 14}).status, Status::fail);
  EXPECT_EQ(check({10, 11, 12}).status, Status::pass);
}

TEST_F(TopKChecks, HoldsTiesToTheContract) {
  const std::vector<float> own = {7, 3, 3, 3, 1};
  const auto check_own = [&](std::vector<std::int32_t> selected) {
    return check_top_k_of_own_scores(selected, 10, own, contract).status;
  };
  EXPECT_EQ(check_own({10, 11, 12}), Status::pass);
  EXPECT_EQ(check_own({10, 11, 13}), Status::fail);
  EXPECT_EQ(check_own({10, 11, 14}), Status::fail);
  contract.ties = TieRule::any;
  EXPECT_EQ(check_own({10, 11, 13}), Status::pass);
  EXPECT_EQ(check_own({11, 12, 13}), Status::fail);
}

}  // namespace
}  // namespace mlacheck
