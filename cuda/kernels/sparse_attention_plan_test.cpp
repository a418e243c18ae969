#include "cuda/kernels/sparse_attention_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "cuda/kernels/sparse_attention_combine.h"

namespace mlacheck::kernels {
namespace {

mlacheck_sparse_attention_problem problem(std::int64_t tokens, std::int64_t heads,
                                          std::int64_t topk, bool invariant) {
  mlacheck_sparse_attention_problem p = {};
  p.tokens = tokens;
  p.heads = heads;
  p.topk = topk;
  p.batch_invariant = invariant ? 1 : 0;
  return p;
}

constexpr std::int64_t kTokens[] = {1, 3, 8, 64, 131, 132, 133, 264, 265, 4096, 70'000};
constexpr std::int64_t kHeads[] = {1, 8, 11, 16, 17, 64, 66, 128, 1000};
constexpr std::int64_t kTopk[] = {0, 1, 15, 16, 17, 2047, 2048, 2049, 65'536, 65'537, 1 << 30};

TEST(SparseAttentionPlan, CoversEveryEntryWithAtMostAsManyChunksAsDeclared) {
  for (const std::int64_t tokens : kTokens)
    for (const std::int64_t heads : kHeads)
      for (const std::int64_t topk : kTopk)
        for (const bool invariant : {false, true}) {
          const SparseAttentionPlan plan = make_plan(problem(tokens, heads, topk, invariant), 132);
          SCOPED_TRACE(::testing::Message() << tokens << " " << heads << " " << topk);
          EXPECT_EQ(plan.chunk % kTileRows, 0);
          const std::int64_t chunks = (topk + plan.chunk - 1) / plan.chunk;
          EXPECT_LE(chunks, SparseAttentionCombine::kMaxChunks);
          EXPECT_EQ(plan.split || plan.folds, chunks > 1);
          EXPECT_EQ(plan.chunks, plan.split ? chunks : 1);
          EXPECT_GE(plan.head_groups * static_cast<std::uint32_t>(plan.group_heads), heads);
          EXPECT_EQ(plan.items, tokens * plan.head_groups * plan.chunks);
          EXPECT_GE(plan.blocks, 1u);
          EXPECT_LE(plan.blocks, plan.items);
        }
}

// Bits depend on the chunks: these on the problem alone, in the batch-invariant mode on the row.
TEST(SparseAttentionPlan, ChunksDependOnNoMachineAndInTheInvariantModeOnNoBatch) {
  for (const std::int64_t heads : kHeads)
    for (const std::int64_t topk : kTopk) {
      const std::int32_t chunk = make_plan(problem(1, heads, topk, true), 132).chunk;
      for (const std::int64_t tokens : kTokens) {
        EXPECT_EQ(make_plan(problem(tokens, heads, topk, true), 132).chunk, chunk);
        for (const unsigned multiprocessors : {1u, 48u, 170u, 188u})
          EXPECT_EQ(make_plan(problem(tokens, heads, topk, false), multiprocessors).chunk,
                    make_plan(problem(tokens, heads, topk, false), 132).chunk);
      }
    }
}

TEST(SparseAttentionPlan, OfNoTokensIsEmpty) {
  const SparseAttentionPlan plan = make_plan(problem(0, 64, 2048, false), 132);
  EXPECT_EQ(plan.items, 0u);
  EXPECT_EQ(plan.blocks, 0u);
  EXPECT_EQ(workspace_bytes(plan), 0u);
}

}  // namespace
}  // namespace mlacheck::kernels
