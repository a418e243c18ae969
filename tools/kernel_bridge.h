#pragma once

#include <memory>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "fixtures/case.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/sparse_attention.h"
#include "tools/timed_calls.h"

namespace mlacheck {

// Calls of kernels: between the operators' own types and the C ABI.

// A call with the problem's inputs copied and its outputs poisoned.
std::unique_ptr<KernelCall> make_call(const SparseAttentionProblem& problem);
// The same with the case's own 656-byte records where it has them, in place of what a reader makes
// of them.
std::unique_ptr<KernelCall> make_call(const SparseAttentionCase& attention);
std::unique_ptr<KernelCall> make_call(const IndexScoresProblem& problem);
// The same where nothing is to be written outside of the rows' ranges.
std::unique_ptr<KernelCall> make_unmasked_call(const IndexScoresProblem& problem);

// The same call in the batch-invariant mode, of all rows or of row t alone; alone without
// max_logit, so that a kernel is once asked for none.
std::unique_ptr<KernelCall> make_batch_invariant_call(const SparseAttentionCase& attention);
std::unique_ptr<KernelCall> make_solo_call(const SparseAttentionCase& attention, std::int64_t t);

// A series of calls to be timed, from the case's first row on; attention without max_logit.
std::unique_ptr<KernelCall> make_timed_call(const SparseAttentionCase& attention,
                                            const TimedCalls& timed);
std::unique_ptr<KernelCall> make_timed_call(const IndexScoresCase& scores, const TimedCalls& timed);

// The problem's row t alone; in its memory.
SparseAttentionProblem row_of(const SparseAttentionProblem& problem, std::int64_t t);
IndexScoresProblem row_of(const IndexScoresProblem& problem, std::int64_t t);

// The k best keys of every row, as logical keys.
std::unique_ptr<KernelCall> make_select_call(const IndexScoresProblem& problem, std::int64_t k);
std::unique_ptr<KernelCall> make_timed_select_call(const IndexScoresCase& scores, std::int64_t k,
                                                   const TimedCalls& timed);
// How many keys a recipe of scores is put to index_select with: a quarter, as a model takes at
// most.
std::int64_t selected_keys(const IndexScoresProblem& problem);

// Positions through row 0 of the problem's block table.
std::unique_ptr<KernelCall> make_map_slots_call(const IndexScoresProblem& problem,
                                                const std::vector<std::int32_t>& positions);

// One row of scores each; rows `columns` apart.
struct TopKProblem {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
  const float* scores = nullptr;            // [rows, columns]
  const std::int32_t* row_begin = nullptr;  // [rows]
  const std::int32_t* row_end = nullptr;    // [rows]
};
std::unique_ptr<KernelCall> make_call(const TopKProblem& problem);
std::unique_ptr<KernelCall> make_timed_call(const TopKProblem& problem, const TimedCalls& timed);

// What a finished call left in its outputs.
SparseAttentionResult attention_result(const KernelCall& call);
std::vector<float> scores_result(const KernelCall& call);
std::vector<std::int32_t> selected_result(const KernelCall& call);
std::vector<std::int32_t> slots_result(const KernelCall& call);

}  // namespace mlacheck
