#pragma once

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/online_softmax.h"
#include "cuda/kernels/sparse_attention_combine.h"

namespace mlacheck::kernels {

// The arithmetic of sparse_attention_16 and _64, which is the same; `element` is that of q.
constexpr mlacheck_contract attention_contract(mlacheck_dtype element) {
  return {
      .struct_size = sizeof(mlacheck_contract),
      .tile = kTileRows,
      .qk = kTensorCore,  // four chains of 9 steps, then two additions: less than 36 steps
      .pv = kTensorCore,
      // A lane adds four weights of a tile, then the tile's sum; four lanes at the end.
      .weight_sum = {1, MLACHECK_SUM_LANES16, 0, 25, 0},
      .index_dot = kUnused,
      .index_heads = kUnused,
      .weight_dtype = element,
      .weights_normalised = 0,
      .sums_rounded = 0,
      .max_splits = SparseAttentionCombine::kMaxChunks,
      .partial_dtype = MLACHECK_F32,
      .score_dtype = MLACHECK_F32,
      .flushes_subnormals = 0,
      .batch_invariant = 1,
      .run_deterministic = 1,
      .weight_scale = 1,
      .exp_error = kExp2Error,
      .exp_underflow = 0x1p-126f,
      .log_error = kLnError,
      .max_headroom = kRaiseThreshold,
  };
}

}  // namespace mlacheck::kernels
