#pragma once

#include "cuda/kernels/gather.h"
#include "cuda/kernels/sparse_attention_16_scores.h"
#include "cuda/kernels/sparse_attention_16_values.h"

namespace mlacheck::kernels {

// sparse_attention for 16 heads a block (8 and fewer: padded with zeros), for few heads and for few
// tokens; two blocks an SM where shared memory allows: 8 warps in three roles.
//
//   warps  role    of every tile of 16 KV rows
//   0-1    scores  16 heads x 288 dims; softmax of 8 heads        Q in 72 registers
//   2-5    values  16 heads x 128 dims                            out in 64 registers
//   6-7    gather  8 rows each
//
//   gather  rows(0), rows(1), ...                       rows     -> scores, values   5 tiles
//   scores  scores(0), scores(1), weights(0), ...       weights  -> values           3 tiles
//
// A score is (c0 + c1) + (c2 + c3), four fp32 chains of 144 dims each, as in sparse_attention_64:
// both kernels give the same bits.
template <device::Element E>
MLACHECK_KERNEL(SparseAttention16::kThreads, 2)
sparse_attention_16(const SparseAttentionArguments arguments) {
  using K = SparseAttention16;
  K::Shared& shared = device::shared_memory<K::Shared>();
  if (device::thread_index() == 0) K::initialise_barriers(shared);
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();  // combine: it reads this kernel's inputs before it waits
  const unsigned warp = device::warp_index();
  if (warp < K::kScoreWarps)
    Scores16<E>(arguments, shared, warp).run();
  else if (warp < K::kScoreWarps + K::kValueWarps)
    Values16<E>(arguments, shared, warp - K::kScoreWarps).run();
  else
    Gather<K::Shared, K::kGatherWarps>(arguments, shared, warp - K::kScoreWarps - K::kValueWarps)
        .run();
}

}  // namespace mlacheck::kernels
