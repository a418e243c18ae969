#include "property_tests/campaign_time.h"

#include <gtest/gtest.h>

namespace mlacheck {
namespace {

Recipe recipe() { return parse_recipe("mlacheck1 op=top_k t=16 n=65536"); }
Recipe four_times() { return parse_recipe("mlacheck1 op=top_k t=64 n=65536"); }

TEST(CampaignTime, EstimatesACaseByOthersOfItsSizeOrALittleLess) {
  CampaignTime time(60, {}, 2);
  EXPECT_TRUE(time.fits(0, four_times()));
  time.note(0, recipe(), 40);
  EXPECT_TRUE(time.fits(0, recipe()));
  EXPECT_FALSE(time.fits(0, four_times()));
  EXPECT_TRUE(time.fits(1, four_times()));
}

// The first one waits for a compiler, say.
TEST(CampaignTime, GoesByNoCaseThatWasSlowAlone) {
  CampaignTime time(60, {}, 1);
  time.note(0, recipe(), 100);
  EXPECT_FALSE(time.fits(0, recipe()));
  time.note(0, recipe(), 1);
  EXPECT_TRUE(time.fits(0, recipe()));
  EXPECT_TRUE(time.fits(0, four_times()));
  time.note(0, recipe(), 50);
  EXPECT_FALSE(time.fits(0, four_times()));
}

TEST(CampaignTime, ScalesNothingOfWhatAnyCaseTakes) {
  CampaignTime time(0.7, {}, 1);
  for (int i = 0; i < 2; ++i) time.note(0, recipe(), 0.2);
  EXPECT_TRUE(time.fits(0, four_times()));
  for (int i = 0; i < 2; ++i) time.note(0, recipe(), 0.5);
  EXPECT_FALSE(time.fits(0, four_times()));
}

TEST(CampaignTime, IsOverWhenNothingFitsAnyMore) {
  CampaignTime time(60, {}, 1);
  for (int i = 0; i < 99; ++i) time.note_left_out();
  time.note_tried();
  for (int i = 0; i < 99; ++i) time.note_left_out();
  EXPECT_FALSE(time.is_over());
  time.note_left_out();
  EXPECT_TRUE(time.is_over());
  EXPECT_EQ(time.left_out(), 199);
}

}  // namespace
}  // namespace mlacheck
