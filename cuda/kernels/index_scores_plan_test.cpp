#include "cuda/kernels/index_scores_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mlacheck::kernels {
namespace {

mlacheck_index_scores_problem problem(std::int64_t tokens, std::int64_t keys) {
  mlacheck_index_scores_problem p = {};
  p.tokens = tokens;
  p.heads = 32;
  p.dim = kIndexDim;
  p.key_count = keys;
  p.score_stride = keys;
  p.q_dtype = MLACHECK_F16;
  p.q_token_stride = 32 * kIndexDim;
  p.q_head_stride = kIndexDim;
  p.keys = {MLACHECK_CACHE_ROWS, MLACHECK_F16, keys, 64, 64 * kIndexRowBytes, kIndexRowBytes};
  return p;
}

IndexScoresArguments arguments(const mlacheck_index_scores_problem& p,
                               const IndexScoresPlan& plan) {
  return make_arguments(p, mlacheck_tensors{}, plan);
}

TEST(IndexScoresPlan, ItemsCoverEveryRowAndKeyOnce) {
  for (const std::int64_t tokens : {1, 2, 8, 33, 70})
    for (const std::int64_t keys : {1, 32, 33, 256, 1000, 20'000})
      for (const unsigned multiprocessors : {1u, 2u, 48u, 132u}) {
        SCOPED_TRACE(::testing::Message() << tokens << " " << keys << " " << multiprocessors);
        const auto p = problem(tokens, keys);
        const IndexScoresPlan plan = make_plan(p, multiprocessors);
        const IndexScoresArguments a = arguments(p, plan);
        const std::uint32_t block_keys = plan.warps * kKeysOfWarp;
        EXPECT_EQ(plan.ahead, plan.item_rows == 1);
        EXPECT_LE(plan.warps, plan.ahead ? kMostAheadWarps : kMostIndexWarps);
        EXPECT_LE(plan.item_rows, kMostItemRows);
        EXPECT_GE(plan.blocks, 1u);
        EXPECT_LE(plan.blocks, std::min(plan.items, 2 * multiprocessors));
        std::vector<int> seen(static_cast<std::size_t>(tokens) * plan.key_blocks);
        for (std::uint32_t i = 0; i < plan.items; ++i) {
          const IndexItem item(a, i);
          EXPECT_EQ(item.first_key % block_keys, 0u);
          for (std::uint32_t r = item.first_row; r < item.first_row + item.rows; ++r)
            ++seen.at(r * plan.key_blocks + item.first_key / block_keys);
        }
        for (const int times : seen) ASSERT_EQ(times, 1);
      }
}

// A block whose items all lie in one column would get the whole length, or nothing, of the
// triangle.
TEST(IndexScoresPlan, BlocksShareACausalTriangle) {
  for (const unsigned multiprocessors : {64u, 128u, 132u, 188u}) {
    const auto p = problem(32'768, 32'768);
    const IndexScoresPlan plan = make_plan(p, multiprocessors);
    const IndexScoresArguments a = arguments(p, plan);
    std::vector<std::int64_t> work(plan.blocks);
    std::int64_t all = 0;
    for (std::uint32_t i = 0; i < plan.items; ++i) {
      const IndexItem item(a, i);
      if (item.first_key >= item.first_row + item.rows) continue;
      ++work[i % plan.blocks];
      ++all;
    }
    const std::int64_t most = *std::max_element(work.begin(), work.end());
    EXPECT_LE(most * plan.blocks, all + all / 20) << multiprocessors;
  }
}

TEST(IndexScoresPlan, FillsTheChipWhereItCan) {
  EXPECT_EQ(make_plan(problem(1, 4096), 132).items, 128u);  // a warp each
  EXPECT_EQ(make_plan(problem(1, 131'072), 132).warps, kMostAheadWarps);
  EXPECT_EQ(make_plan(problem(32'768, 32'768), 132).item_rows, kMostItemRows);
  EXPECT_EQ(make_plan(problem(70'000, 1'048'576), 132).items, 2188u * 2048);
}

TEST(IndexScoresPlan, PagesThatFollowEachOtherAreOne) {
  auto p = problem(1, 1000);
  EXPECT_GE(arguments(p, make_plan(p, 132)).page_size.divisor(), 1000u);
  p.keys.page_stride += 16;
  EXPECT_EQ(arguments(p, make_plan(p, 132)).page_size.divisor(), 64u);
  p = problem(1, 1000);
  p.has_block_table = 1;
  EXPECT_EQ(arguments(p, make_plan(p, 132)).page_size.divisor(), 64u);
}

TEST(IndexScoresPlan, OfNothingIsEmpty) {
  EXPECT_EQ(make_plan(problem(0, 100), 132).blocks, 0u);
  EXPECT_EQ(make_plan(problem(100, 0), 132).blocks, 0u);
}

TEST(IndexScoresPlan, RowsOfScoresThatOverlapAreRefused) {
  mlacheck_index_scores_problem p = problem(3, 40);
  p.score_stride = 39;
  EXPECT_EQ(refusal(p), "score_stride 39: at least key_count");
}

TEST(IndexScoresPlan, MoreItemsThanNumbersAreRefused) {
  EXPECT_EQ(refusal(problem(1 << 23, 1 << 20)), "");
  EXPECT_NE(refusal(problem(1 << 24, 1 << 24)), "");
}

}  // namespace
}  // namespace mlacheck::kernels
