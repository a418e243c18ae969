#pragma once

#include <cstdint>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "fixtures/case.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// What a call cannot do without.
struct CallWork {
  double row_bytes = 0;    // of the present entries
  double other_bytes = 0;  // q, indices, out and lse
  double flops = 0;        // of the two products, over the present entries
};

// How the rows of a case are shared out among timed calls: call i has rows
// [i * tokens, (i + 1) * tokens).
struct TimedCalls {
  std::int64_t tokens = 1;
  std::int32_t calls = 1;
  bool batch_invariant = false;
};

// As many calls as read twice the cache between them, at most 64, so that none finds there what it
// reads.
TimedCalls timed_calls(const SparseAttentionRecipe& recipe, std::int64_t tokens,
                       std::int64_t l2_bytes, bool batch_invariant);

// Of a call, on average.
CallWork work_of(const SparseAttentionCase& attention, const TimedCalls& timed);

// What the calls left in their outputs: elements that nobody wrote, and some rows, of the first
// call, the last and those between, against the oracle under the contract.
std::vector<Finding> judge_timed(const SparseAttentionCase& attention, const KernelCall& call,
                                 const NumericsContract& contract);

}  // namespace mlacheck
