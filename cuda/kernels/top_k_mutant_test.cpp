#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "cuda/kernels/top_k_launch_impl.h"
#include "cuda/kernels/top_k_testing.h"
#include "reference/verdict/top_k_rule.h"

// Wrong top_k kernels: with a barrier left out, which the emulator must notice, or with a rule
// changed, which it or the verdict must.
namespace mlacheck::kernels::testing {
namespace {

using emulator::CallSite;
using emulator::Primitive;

// Rows that fit a block's candidates, that are sampled, and whose sample misleads.
Selecting problem() {
  constexpr std::int64_t kColumns = 35'000;  // five rounds of a stream
  Selecting selecting(6, kColumns, 300);
  selecting.fill_row(0, scores_of(Scores::normal, kColumns, 1));
  selecting.fill_row(1, scores_of(Scores::specials, kColumns, 2));
  std::vector<float> misleading = scores_that_mislead(kColumns, 3, true);
  // Candidates in the last tile, which nothing but the barrier after it orders.
  std::fill(misleading.end() - 16, misleading.end(), 1e6f);
  selecting.fill_row(2, misleading);
  selecting.fill_row(3, scores_of(Scores::few_above_zeros, kColumns, 4));
  mislead_stream(selecting, 4, 20.0f);
  mislead_stream(selecting, 5, -20.0f);
  selecting.end[0] = 2'000;
  selecting.calls = 2;
  return selecting;
}

TEST(TopKMutants, WithoutABarrierAreNoticed) {
  const Selecting selecting = problem();
  emulator::SessionOptions listing;
  listing.list_call_sites = true;
  std::set<CallSite> sites;
  std::set<Primitive> seen;
  for (const std::uint32_t slices : {1u, 3u, kStreams}) {
    const Selection clean = selecting.run(slices, listing);
    ASSERT_EQ(text_of(clean.reports), "");
    EXPECT_EQ(clean.selected, selecting.expected());
    for (const CallSite& site : clean.call_sites) {
      sites.insert(site);
      seen.insert(site.primitive);
    }
  }
  EXPECT_TRUE(seen.contains(Primitive::sync_block) &&
              seen.contains(Primitive::wait_for_previous_kernel));
  for (const CallSite& site : sites) {
    emulator::SessionOptions options;
    options.mutations = {{site, 0}};
    const bool noticed = !selecting.run(1, options).reports.empty() ||
                         !selecting.run(3, options).reports.empty() ||
                         !selecting.run(kStreams, options).reports.empty();
    EXPECT_TRUE(noticed) << std::filesystem::path(site.file).filename().string() << ":" << site.line
                         << " " << name_of(site.primitive) << " left out";
  }
}

// Whether the emulator or the verdict finds fault with any row.
template <class Rules>
bool is_noticed(const Selecting& selecting, std::uint32_t slices) {
  const Selection selection = selecting.run<Rules>(slices);
  if (!selection.reports.empty()) return true;
  const auto k = static_cast<std::size_t>(selecting.problem.k);
  for (std::int64_t row = 0; row < selecting.problem.rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    const float* scores = selecting.scores.data() + row * selecting.problem.score_stride;
    const Finding finding =
        check_top_k_of_own_scores({selection.selected.data() + r * k, k}, selecting.begin[r],
                                  {scores + selecting.begin[r], scores + selecting.end[r]}, {});
    if (finding.status != Status::pass) return true;
  }
  return false;
}

// What a rule is to be wrong on: rows that fit, and rows that are sampled.
Selecting problem_of(Scores scores) {
  Selecting selecting(2, 9'000, 300);
  for (std::int64_t row = 0; row < 2; ++row)
    selecting.fill_row(row, scores_of(scores, 9'000, 6 + static_cast<std::uint64_t>(row)));
  selecting.end[0] = 1'000;
  return selecting;
}

struct TopKRule : ::testing::Test {
  template <class Rules>
  static void expect_noticed(Scores scores) {
    const Selecting selecting = problem_of(scores);
    for (const std::uint32_t slices : {1u, 3u, kStreams}) {
      EXPECT_FALSE(is_noticed<TopKRules>(selecting, slices));
      EXPECT_TRUE(is_noticed<Rules>(selecting, slices)) << slices << " slices";
    }
  }
};

struct HighestIndex : TopKRules {
  static std::uint32_t tie(std::uint32_t place) { return place; }
};
TEST_F(TopKRule, TiesToTheHighestIndex) {
  expect_noticed<HighestIndex>(Scores::two_values);
  expect_noticed<HighestIndex>(Scores::zeros);
}

struct SignedZeros : TopKRules {
  static std::uint32_t key(float score) {
    const auto bits = std::bit_cast<std::uint32_t>(score);
    return score != score ? 0 : (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  }
};
TEST_F(TopKRule, MinusZeroBelowZero) { expect_noticed<SignedZeros>(Scores::signed_zeros); }

struct NanFirst : TopKRules {
  static std::uint32_t key(float score) {
    return score != score ? 0xff800001u : TopKRules::key(score);
  }
};
TEST_F(TopKRule, NanFirst) { expect_noticed<NanFirst>(Scores::specials); }

struct NanAsMinusInfinity : TopKRules {
  static std::uint32_t key(float score) {
    return score != score ? TopKRules::key(-std::numeric_limits<float>::infinity())
                          : TopKRules::key(score);
  }
};
TEST_F(TopKRule, NanAsMinusInfinity) {
  Selecting selecting = problem_of(Scores::minus_inf);
  for (std::size_t i = 0; i < selecting.scores.size(); i += 3)
    selecting.scores[i] = std::numeric_limits<float>::quiet_NaN();
  selecting.end[0] = 400;
  for (const std::uint32_t slices : {1u, 3u, kStreams}) {
    EXPECT_FALSE(is_noticed<TopKRules>(selecting, slices));
    EXPECT_TRUE(is_noticed<NanAsMinusInfinity>(selecting, slices));
  }
}

struct InclusiveScan : TopKRules {
  static std::uint32_t exclusive(std::uint32_t inclusive, std::uint32_t) { return inclusive; }
};
TEST_F(TopKRule, OffByOneInAScan) { expect_noticed<InclusiveScan>(Scores::normal); }

struct AboveThreshold : TopKRules {
  static bool reaches(float score, float least) { return score > least; }
};
TEST_F(TopKRule, CandidatesAtTheThresholdDropped) { expect_noticed<AboveThreshold>(Scores::zeros); }

}  // namespace
}  // namespace mlacheck::kernels::testing
