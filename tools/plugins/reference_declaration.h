#pragma once

#include "cuda/include/mlacheck_kernel.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"

// What kernels declare that compute as the reference operators do.
namespace mlacheck::plugin {

inline constexpr mlacheck_conventions kReferenceConventions = {
    .struct_size = sizeof(mlacheck_conventions),
    .lse_base = MLACHECK_LSE_NATURAL,
    .lse_empty = MLACHECK_EMPTY_MINUS_INF,
    .sink_in_lse = 0,
    .duplicates_once = 0,
    .row_relative = 0,
    .any_order = 0,
    .any_tie = 0,
    .nan_first = 0,
    .unmasked_scores = 0,
    .record_reader = MLACHECK_READ_BF16_SCALE,
};

// Ordered sums of rounded products (reference/arithmetic/ordered_sum.h).
inline constexpr mlacheck_accumulation kReferenceProducts = {1, MLACHECK_SUM_LANES16, 0, 25, 1};

// The same as reference_contract() of reference/verdict, which a test compares it with.
inline constexpr mlacheck_contract kReferenceContract = {
    .struct_size = sizeof(mlacheck_contract),
    .tile = 0,
    .qk = kReferenceProducts,
    .pv = kReferenceProducts,
    .weight_sum = {1, MLACHECK_SUM_LANES16, 0, 25, 0},
    .index_dot = kReferenceProducts,
    .index_heads = kReferenceProducts,
    .weight_dtype = MLACHECK_F32,
    .weights_normalised = 0,
    .sums_rounded = 0,
    .max_splits = 1,
    .partial_dtype = MLACHECK_F32,
    .score_dtype = MLACHECK_F32,
    .flushes_subnormals = 0,
    .batch_invariant = 1,
    .run_deterministic = 1,
    .weight_scale = 1,
    .exp_error = kExp2Error,
    .exp_underflow = 0x1p-126f,
    .log_error = kLnError,
    .max_headroom = 0,
};

}  // namespace mlacheck::plugin
