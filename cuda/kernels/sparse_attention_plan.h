#pragma once

#include <cstdint>
#include <string>

#include "cuda/include/mlacheck_kernel.h"
#include "cuda/kernels/sparse_attention_arguments.h"

namespace mlacheck::kernels {

// How a problem is run. The chunks, and with them the bits, depend on the problem alone, in the
// batch-invariant mode on nothing but its flag; the machine decides only how many blocks share the
// items.
struct SparseAttentionPlan {
  int group_heads = 64;      // of a block: 16 or 64
  std::int32_t chunk = 16;   // entries
  std::uint32_t chunks = 1;  // of a row, each an item of its own; else 1
  std::uint32_t head_groups = 1;
  bool split = false;       // chunks are items, folded by combine
  bool folds = false;       // a block folds the chunks of its rows
  std::uint32_t items = 0;  // 0: nothing to do
  std::uint32_t blocks = 0;
  std::int32_t combine_blocks = 1;  // along the columns of 16 heads
};

// Why no kernel here runs the problem, with the value and what is allowed; empty when one does.
std::string refusal(const mlacheck_sparse_attention_problem& problem);

// For a problem that is not refused.
SparseAttentionPlan make_plan(const mlacheck_sparse_attention_problem& problem,
                              unsigned multiprocessors);

std::uint64_t workspace_bytes(const SparseAttentionPlan& plan);

// What the kernels get. The workspace is 256-byte aligned and has workspace_bytes(plan).
SparseAttentionArguments make_arguments(const mlacheck_sparse_attention_problem& problem,
                                        const mlacheck_tensors& tensors,
                                        const SparseAttentionPlan& plan, void* workspace);

}  // namespace mlacheck::kernels
