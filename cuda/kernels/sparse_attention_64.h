#pragma once

#include "cuda/kernels/gather.h"
#include "cuda/kernels/sparse_attention_64_math.h"
#include "cuda/kernels/sparse_attention_64_softmax.h"

namespace mlacheck::kernels {

// sparse_attention for 64 heads a block, one block an SM: 16 warps in three roles, which meet at
// mbarriers alone.
//
//   warps  role     of every tile of 16 KV rows                              registers a thread
//   0-7    math     scores: 32 heads (w / 4) x 144 dims (w % 4)              224: Q 52, out 128
//                   values: 64 heads x 64 dims (w)
//   8-11   softmax  16 heads each: adds the four partial scores, weights      40
//   12-15  gather   4 rows each                                               24
//
//   gather    rows(0), rows(1), rows(2), ...             rows        -> math     3 tiles
//   math      scores(0), scores(1), values(0), ...       scores      -> softmax  1 tile
//   softmax   weights(0), weights(1), ...                weights     -> math     2 tiles
//
// A tile's weights also say that its scores were read: their place is free.
//
// Q is A of the score product and stays for the whole item: of a warp's 18 fragments 13 in
// registers, 5 in shared memory. A KV tile is B, read plain for the scores and transposed for the
// values. A score is (c0 + c1) + (c2 + c3), four fp32 chains of 144 dims each.
template <device::Element E>
MLACHECK_KERNEL(SparseAttention64::kThreads, 1)
sparse_attention_64(const SparseAttentionArguments arguments) {
  using K = SparseAttention64;
  K::Shared& shared = device::shared_memory<K::Shared>();
  if (device::thread_index() == 0) K::initialise_barriers(shared);
  device::sync_block();
  device::wait_for_previous_kernel();
  device::let_next_kernel_start();  // combine: it reads this kernel's inputs before it waits
  const unsigned warp = device::warp_index();
  if (warp >= K::kMathWarps + K::kSoftmaxWarps) {
    device::give_registers<24>();
    Gather<K::Shared, K::kGatherWarps>(arguments, shared, warp - K::kMathWarps - K::kSoftmaxWarps)
        .run();
  } else if (warp >= K::kMathWarps) {
    device::give_registers<40>();
    Softmax64<E>(arguments, shared, warp - K::kMathWarps).run();
  } else {
    device::take_registers<224>();
    Math64<E>(arguments, shared, warp).run();
  }
}

}  // namespace mlacheck::kernels
