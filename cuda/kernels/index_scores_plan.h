#pragma once

#include <cstdint>
#include <string>

#include "cuda/include/mlacheck_kernel.h"
#include "cuda/kernels/index_scores_arguments.h"

namespace mlacheck::kernels {

// How a problem is cut: items of item_rows rows and 32 * warps keys. No bit depends on it.
struct IndexScoresPlan {
  std::uint32_t item_rows = 1;
  std::uint32_t warps = 1;       // of a block
  bool ahead = false;            // by index_scores_ahead, where item_rows is 1
  std::uint32_t key_blocks = 1;  // of a row
  std::uint32_t items = 0;       // 0: nothing to do
  std::uint32_t blocks = 0;
};

// Why the kernel does not run the problem, with the value and what is allowed; empty when it does.
std::string refusal(const mlacheck_index_scores_problem& problem);

// For a problem that is not refused.
IndexScoresPlan make_plan(const mlacheck_index_scores_problem& problem, unsigned multiprocessors);

// What the kernel gets. masks: whether scores outside a row's range are written, as -inf.
IndexScoresArguments make_arguments(const mlacheck_index_scores_problem& problem,
                                    const mlacheck_tensors& tensors, const IndexScoresPlan& plan,
                                    bool masks = true);

}  // namespace mlacheck::kernels
