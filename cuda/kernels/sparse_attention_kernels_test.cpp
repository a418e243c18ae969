#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "cuda/kernels/sparse_attention_testing.h"

// What the kernels promise of themselves. That their results are right is judged where all kernels
// are judged: tools/kernel_checks.h.
namespace mlacheck::kernels::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint16_t kNanF16 = 0x7e00;

std::string text_of(const std::vector<emulator::Report>& reports) {
  std::string text;
  for (const emulator::Report& report : reports) text += report.text() + "\n";
  return text;
}

TEST(SparseAttentionKernels, BothKernelsSplitOrNotGiveTheSameBits) {
  Attention attention(2, 20, 200, 300);
  attention.indices[5] = attention.indices[130] = -1;
  attention.topk_length = {200, 90};
  attention.attn_sink.assign(20, 0.5f);
  const Outcome expected = attention.run(with_chunks(attention, 16, 64, false));
  EXPECT_EQ(text_of(expected.reports), "");
  for (const int group_heads : {16, 64})
    for (const bool split : {false, true}) {
      const Outcome outcome = attention.run(with_chunks(attention, group_heads, 64, split));
      EXPECT_EQ(text_of(outcome.reports), "");
      EXPECT_TRUE(outcome.same_bits(expected)) << group_heads << (split ? " split" : "");
    }
  // Another chunk groups the sums otherwise: else the test would show nothing.
  EXPECT_FALSE(attention.run(with_chunks(attention, 16, 96, false)).same_bits(expected));
}

TEST(SparseAttentionKernels, EverySchedulePermitsTheSameBits) {
  Attention attention(2, 17, 100, 120);
  for (const int group_heads : {16, 64}) {
    const SparseAttentionPlan plan = with_chunks(attention, group_heads, 48, true);
    const Outcome expected = attention.run(plan);
    for (std::uint64_t seed = 2; seed < 6; ++seed) {
      emulator::SessionOptions options;
      options.seed = seed;
      options.host_threads = static_cast<int>(seed % 2) + 1;
      const Outcome outcome = attention.run(plan, options);
      EXPECT_EQ(text_of(outcome.reports), "") << "seed " << seed;
      EXPECT_TRUE(outcome.same_bits(expected)) << "seed " << seed;
    }
  }
}

TEST(SparseAttentionKernels, ARowAloneHasTheBitsThatItHasInABatch) {
  Attention batch(3, 8, 1100, 1200);
  batch.problem.batch_invariant = 1;
  const Outcome all = batch.run(batch.plan());
  Attention alone(1, 8, 1100, 1200);
  alone.problem.batch_invariant = 1;
  alone.q.assign(batch.q.begin() + 2 * 8 * kQkDim, batch.q.end());
  alone.indices.assign(batch.indices.begin() + 2 * 1100, batch.indices.end());
  const Outcome row = alone.run(alone.plan());
  EXPECT_TRUE(std::equal(row.out.begin(), row.out.end(), all.out.begin() + 2 * 8 * kVDim));
  EXPECT_TRUE(std::equal(row.lse.begin(), row.lse.end(), all.lse.begin() + 2 * 8));
}

TEST(SparseAttentionKernels, TrailingAbsentEntriesChangeNothing) {
  Attention attention(1, 8, 1100, 1200);
  attention.problem.batch_invariant = 1;
  Attention padded(1, 8, 3000, 1200);
  padded.problem.batch_invariant = 1;
  std::fill(padded.indices.begin(), padded.indices.end(), -1);
  std::copy(attention.indices.begin(), attention.indices.end(), padded.indices.begin());
  EXPECT_TRUE(padded.run(padded.plan()).same_bits(attention.run(attention.plan())));
}

TEST(SparseAttentionKernels, NothingOfAnAbsentSlotReachesTheResult) {
  Attention attention(1, 16, 40, 64);
  for (std::size_t i = 0; i < 40; ++i) attention.indices[i] = static_cast<std::int32_t>(i % 20);
  const std::int32_t absent[] = {-1, 64, std::numeric_limits<std::int32_t>::min(),
                                 std::numeric_limits<std::int32_t>::max()};
  for (std::size_t i = 0; i < 4; ++i) attention.indices[9 * i] = absent[i];
  attention.topk_length = {37};
  const Outcome expected = attention.run(attention.plan());
  EXPECT_TRUE(std::none_of(expected.lse.begin(), expected.lse.end(),
                           [](float x) { return std::isnan(x); }));
  Attention poisoned = attention;
  std::fill(poisoned.kv.begin() + 20 * kQkDim, poisoned.kv.end(), kNanF16);
  for (std::size_t i = 0; i < 4; ++i) poisoned.indices[9 * i] = absent[3 - i];
  std::fill(poisoned.indices.begin() + 37, poisoned.indices.end(), 30);
  const Outcome outcome = poisoned.run(poisoned.plan());
  EXPECT_EQ(text_of(outcome.reports), "");
  EXPECT_TRUE(outcome.same_bits(expected));
}

TEST(SparseAttentionKernels, AnEmptyRowIsZeroAndMinusInfinity) {
  for (const int group_heads : {16, 64})
    for (const bool split : {false, true}) {
      Attention attention(2, 8, 40, 8);
      std::fill(attention.indices.begin(), attention.indices.begin() + 40, -1);
      attention.topk_length = {40, 0};
      attention.attn_sink.assign(8, 3.0f);
      const Outcome outcome = attention.run(with_chunks(attention, group_heads, 16, split));
      EXPECT_EQ(text_of(outcome.reports), "");
      EXPECT_TRUE(std::all_of(outcome.out.begin(), outcome.out.end(),
                              [](std::uint16_t x) { return x == 0; }));
      EXPECT_THAT(outcome.lse, ::testing::Each(-std::numeric_limits<float>::infinity()));
      EXPECT_THAT(outcome.max_logit, ::testing::Each(-std::numeric_limits<float>::infinity()));
    }
}

TEST(SparseAttentionKernels, NanInASelectedRowMakesNanAndNothingElse) {
  Attention attention(2, 8, 20, 64);
  attention.kv[static_cast<std::size_t>(attention.indices[3]) * kQkDim] = kNanF16;
  for (std::size_t i = 20; i < 40; ++i) attention.indices[i] = 50;  // the second row, elsewhere
  const Outcome outcome = attention.run(attention.plan());
  for (std::size_t i = 0; i < outcome.lse.size(); ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(outcome.lse[i]);
    EXPECT_EQ(bits == 0x7fffffffu, i < 8) << i;
    EXPECT_EQ(outcome.out[i * kVDim] == 0x7fff, i < 8) << i;
  }
}

TEST(SparseAttentionKernels, RefusesWithTheValueAndWhatIsAllowed) {
  Attention attention(1, 8, 20, 64);
  EXPECT_EQ(refusal(attention.problem), "");
  auto problem = attention.problem;
  problem.qk_dim = 512;
  EXPECT_THAT(refusal(problem), HasSubstr("qk_dim 512"));
  problem = attention.problem;
  problem.kv.row_stride = 1154;
  EXPECT_THAT(refusal(problem), HasSubstr("kv.row_stride 1154"));
  problem = attention.problem;
  problem.kv.dtype = MLACHECK_BF16;
  EXPECT_THAT(refusal(problem), HasSubstr("kv.dtype 3"));
  problem = attention.problem;
  problem.sm_scale = std::numeric_limits<float>::infinity();
  EXPECT_THAT(refusal(problem), HasSubstr("sm_scale inf"));
  problem.sm_scale = 3e38f;  // finite, but not times log2(e)
  EXPECT_THAT(refusal(problem), HasSubstr("sm_scale"));
}

}  // namespace
}  // namespace mlacheck::kernels::testing
