#include "reference/oracle/top_k_band.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <vector>

#include "reference/oracle/all_selections.h"

namespace mlacheck {
namespace {

using testing::all_admissible_selections;
using testing::Boxes;

RC_GTEST_PROP(TopKBand, IsWhatAllCorrectAnswersShare, ()) {
  const Boxes boxes = *testing::small_boxes();
  const auto k = *rc::gen::inRange<std::int64_t>(0, 8);
  const TopKBand band = top_k_band(boxes.scores, boxes.radii, k);
  const auto answers = all_admissible_selections(boxes, k);
  RC_ASSERT(!answers.empty());
  for (std::size_t i = 0; i < boxes.scores.size(); ++i) {
    std::size_t in = 0;
    for (const std::uint32_t answer : answers) in += (answer >> i) & 1u;
    const Membership expected = in == 0                ? Membership::forbidden
                                : in == answers.size() ? Membership::forced
                                                       : Membership::ambiguous;
    RC_ASSERT(band.membership[i] == expected);
  }
  RC_ASSERT(band.forced + band.ambiguous + band.forbidden ==
            static_cast<std::int64_t>(boxes.scores.size()));
}

TEST(TopKBand, NamesTheNearTie) {
  const std::vector<double> scores = {5, 3, 3.1, 1}, radii = {0.1, 0.1, 0.1, 0.1};
  const TopKBand band = top_k_band(scores, radii, 2);
  EXPECT_EQ(band.membership, (std::vector{Membership::forced, Membership::ambiguous,
                                          Membership::ambiguous, Membership::forbidden}));
  const std::vector<double> exact = {0, 0, 0, 0};
  EXPECT_EQ(top_k_band(scores, exact, 2).ambiguous, 0);
}

TEST(TopKBand, InfiniteScoresAreExactAndNanIsBelowAll) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> scores = {infinity, nan, -infinity, 0}, radii = {9, 9, 9, 1};
  EXPECT_EQ(top_k_band(scores, radii, 3).membership,
            (std::vector{Membership::forced, Membership::forbidden, Membership::forced,
                         Membership::forced}));
}

TEST(TopKBand, RefusesUnequalSizes) {
  const std::vector<double> scores = {1, 2}, radii = {0};
  EXPECT_THROW(top_k_band(scores, radii, 1), std::invalid_argument);
}

}  // namespace
}  // namespace mlacheck
