#pragma once

#include <memory>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "fixtures/case.h"
#include "tools/timed_calls.h"

namespace mlacheck {

// The operators of a layer's attention in turn, each on what the one before wrote: index_scores,
// top_k, map_slots where there is a block table, sparse_attention.
struct ChainCase {
  // Throws std::invalid_argument for more than one request, and keys with scales.
  explicit ChainCase(const IndexScoresRecipe& recipe);

  bool has_slots() const { return scores.problem.block_table != nullptr; }
  std::size_t attention_stage() const { return has_slots() ? 3 : 2; }

  IndexScoresCase scores;
  std::int64_t k;                 // keys that are selected
  SparseAttentionCase attention;  // its own indices are not read
};

std::unique_ptr<KernelCall> make_timed_call(const ChainCase& chain, const TimedCalls& timed);

}  // namespace mlacheck
