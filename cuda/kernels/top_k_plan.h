#pragma once

#include <cstdint>
#include <string>

#include "cuda/include/mlacheck_kernel.h"
#include "cuda/kernels/top_k_arguments.h"

namespace mlacheck::kernels {

// How a problem is run: no bit depends on it.
struct TopKPlan {
  std::uint32_t rows = 0;  // 0: nothing to do
  // Blocks that share a row: top_k_slices and top_k_merge. 1: top_k_rows, or top_k_long_rows.
  std::uint32_t slices = 1;
  bool streams_rows = false;
};

// Why no kernel here runs the problem, with the value and what is allowed; empty when one does.
std::string refusal(const mlacheck_top_k_problem& problem);

// For a problem that is not refused.
TopKPlan make_plan(const mlacheck_top_k_problem& problem, unsigned multiprocessors);

std::uint64_t workspace_bytes(const TopKPlan& plan);

// What the kernels get. The workspace is 256-byte aligned and has workspace_bytes(plan).
TopKArguments make_arguments(const mlacheck_top_k_problem& problem, const mlacheck_tensors& tensors,
                             const TopKPlan& plan, void* workspace);

}  // namespace mlacheck::kernels
