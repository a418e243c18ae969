#pragma once

#include "cuda/kernels/sparse_attention_16.h"
#include "cuda/kernels/sparse_attention_64.h"
#include "cuda/kernels/sparse_attention_combine.h"
#include "cuda/kernels/sparse_attention_launch.h"

namespace mlacheck::kernels {

template <device::Element E, int GroupHeads>
void launch_sparse_attention(device::Stream& stream, const SparseAttentionPlan& plan,
                             const SparseAttentionArguments& arguments) {
  using Kernel = std::conditional_t<GroupHeads == 16, SparseAttention16, SparseAttention64>;
  device::LaunchShape shape;
  shape.blocks = plan.blocks;
  shape.threads = Kernel::kThreads;
  shape.shared_bytes = sizeof(typename Kernel::Shared);
  shape.may_start_early = true;
  if constexpr (GroupHeads == 16)
    device::launch(stream, sparse_attention_16<E>, shape, arguments, "sparse_attention_16");
  else
    device::launch(stream, sparse_attention_64<E>, shape, arguments, "sparse_attention_64");
  if (!plan.split) return;
  shape.blocks = plan.items / plan.chunks;
  shape.blocks_y =
      static_cast<unsigned>(plan.combine_blocks * (GroupHeads / SparseAttentionCombine::kHeads));
  shape.threads = SparseAttentionCombine::kThreads;
  shape.shared_bytes = sizeof(SparseAttentionCombine::Shared);
  device::launch(stream, sparse_attention_combine<E, GroupHeads>, shape, arguments,
                 "sparse_attention_combine");
}

}  // namespace mlacheck::kernels
