#pragma once

#include <array>

#include "cuda/include/mlacheck_kernel.h"

// Kernels that are right, each by another arithmetic that a GPU's kernel may have, and says so:
// what a campaign must not flag.
namespace mlacheck::legal {

inline constexpr mlacheck_accumulation kScalar = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 1};
inline constexpr mlacheck_accumulation kFused = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 0};
inline constexpr mlacheck_accumulation kLanes = {1, MLACHECK_SUM_LANES16, 0, 25, 1};
inline constexpr mlacheck_accumulation kTree = {1, MLACHECK_SUM_TREE, 0, 25, 1};
inline constexpr mlacheck_accumulation kTensorCore = {16, MLACHECK_SUM_SEQUENTIAL, 0, 25, 0};
inline constexpr mlacheck_accumulation kTruncating = {16, MLACHECK_SUM_SEQUENTIAL, 1, 25, 0};

// Sums of products (of the weights alone: kFused), what the weights are, and how a row is cut.
struct AttentionVariant {
  const char* name;
  const char* description;
  mlacheck_accumulation sums = kTensorCore;
  int32_t weight_dtype = MLACHECK_BF16;
  int32_t tile = 64;
  int32_t splits = 1;
  int32_t partial_dtype = MLACHECK_F32;
  int32_t sums_rounded = 0;
  int32_t weights_normalised = 0;
  float max_headroom = 0;  // the maximum is raised when weights would pass 2^max_headroom
};

inline constexpr std::array kAttention = {
    AttentionVariant{"attention_scalar", "one term after the other", kScalar, MLACHECK_F32, 0},
    AttentionVariant{"attention_fused", "one fused term after the other", kFused, MLACHECK_F32, 0},
    AttentionVariant{"attention_lanes", "16 lanes and a tree", kLanes, MLACHECK_F32, 0},
    AttentionVariant{"attention_tree", "a balanced tree", kTree, MLACHECK_F32, 0},
    AttentionVariant{"attention_bf16", "blocks of 16, bf16 weights, tiles of 64"},
    AttentionVariant{.name = "attention_f16",
                     .description = "f16 weights, tiles of 32",
                     .weight_dtype = MLACHECK_F16,
                     .tile = 32},
    AttentionVariant{.name = "attention_truncating",
                     .description = "truncating steps, the sum adds rounded weights",
                     .sums = kTruncating,
                     .sums_rounded = 1},
    AttentionVariant{.name = "attention_lazy",
                     .description = "a maximum that is raised by 2^8 at least",
                     .max_headroom = 8},
    AttentionVariant{.name = "attention_normalised",
                     .description = "weights rounded after the division by their sum",
                     .tile = 0,
                     .weights_normalised = 1},
    AttentionVariant{.name = "attention_splits_2", .description = "2 splits", .splits = 2},
    AttentionVariant{.name = "attention_splits_3",
                     .description = "3 splits, f16 weights",
                     .weight_dtype = MLACHECK_F16,
                     .splits = 3},
    AttentionVariant{.name = "attention_splits_4",
                     .description = "4 splits, bf16 partial results",
                     .splits = 4,
                     .partial_dtype = MLACHECK_BF16},
    AttentionVariant{.name = "attention_splits_5",
                     .description = "5 splits of a lazy maximum",
                     .splits = 5,
                     .max_headroom = 4},
    AttentionVariant{.name = "attention_splits_6",
                     .description = "6 splits, f32 weights",
                     .sums = kScalar,
                     .weight_dtype = MLACHECK_F32,
                     .splits = 6},
    AttentionVariant{.name = "attention_splits_7",
                     .description = "7 splits of a tile each",
                     .tile = 0,
                     .splits = 7},
    AttentionVariant{.name = "attention_splits_8",
                     .description = "8 splits, the sum adds rounded weights",
                     .splits = 8,
                     .sums_rounded = 1},
};

struct ScoresVariant {
  const char* name;
  const char* description;
  mlacheck_accumulation dot;
  mlacheck_accumulation heads;
};

inline constexpr std::array kScores = {
    ScoresVariant{"scores_scalar", "one term after the other", kScalar, kScalar},
    ScoresVariant{"scores_tree", "balanced trees", kTree, kTree},
    ScoresVariant{"scores_blocks", "blocks of 16, heads fused", kTensorCore, kFused},
    ScoresVariant{"scores_truncating", "truncating steps, heads in 16 lanes", kTruncating, kLanes},
};

void run(const AttentionVariant& variant, const mlacheck_sparse_attention_problem& problem,
         const mlacheck_tensors& tensors);
// unmasked: nothing is written outside the rows' ranges, where -inf stands otherwise.
void run(const ScoresVariant& variant, const mlacheck_index_scores_problem& problem, bool unmasked,
         const mlacheck_tensors& tensors);
// The k largest in any order, ties to the highest index, NaN first.
void run_top_k(const mlacheck_top_k_problem& problem, const mlacheck_tensors& tensors);

}  // namespace mlacheck::legal
