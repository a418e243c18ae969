#pragma once

#include <cstdint>
#include <string>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck::kernels {

// index_select: scores of some rows at a time, and their selection, so that no [tokens, key_count]
// matrix is ever in DRAM. No bit depends on how many.
struct IndexSelectPlan {
  std::int64_t rows = 0;              // at a time; 0: nothing to do
  std::int64_t score_stride = 0;      // elements
  std::uint64_t score_bytes = 0;      // of those rows
  std::uint64_t workspace_bytes = 0;  // with what top_k needs
};

// Why no kernel here runs the problem, with the value and what is allowed; empty when one does.
std::string refusal(const mlacheck_index_select_problem& problem);

// For a problem that is not refused.
IndexSelectPlan make_plan(const mlacheck_index_select_problem& problem, unsigned multiprocessors);

// The scores of `rows` rows from `first` on into the workspace, and what is selected from them:
// each as a problem with its tensors.
struct IndexSelectPart {
  IndexSelectPart(const mlacheck_index_select_problem& problem, const mlacheck_tensors& tensors,
                  const IndexSelectPlan& plan, void* workspace, std::int64_t first);

  mlacheck_index_scores_problem scores;
  mlacheck_tensors scores_tensors;
  mlacheck_top_k_problem selection;
  mlacheck_tensors selection_tensors;
  void* selection_workspace;
};

}  // namespace mlacheck::kernels
