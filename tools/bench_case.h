#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "cuda/plugin/kernel_call.h"
#include "fixtures/case.h"
#include "fixtures/recipe.h"
#include "reference/verdict/verdict.h"
#include "tools/timed_calls.h"

namespace mlacheck {

// What a call cannot do without.
struct CallWork {
  double read_bytes = 0;   // what it reads most of: rows of the present entries, keys, scores
  double other_bytes = 0;  // the other tensors, once each
  double flops = 0;        // of its matrix products

  double bytes() const { return read_bytes + other_bytes; }
};

// The recipe with so many tokens.
Recipe with_tokens(const Recipe& recipe, std::int64_t tokens);

// A kernel for each stage of a case.
using StageKernels = std::span<const mlacheck_kernel* const>;

// A recipe of an operator, to be timed: its tokens are those of all calls together.
class BenchCase {
 public:
  virtual ~BenchCase() = default;

  // mlacheck_operator of each stage: one, but of a chain.
  virtual std::vector<std::int32_t> ops() const = 0;
  virtual std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const = 0;
  // Of a call, on average.
  virtual CallWork work(const TimedCalls& timed) const = 0;
  // What the calls left in their outputs: elements that nobody wrote, and some rows, of the first
  // call, the last and those between, against the oracle under the kernels' contracts.
  virtual std::vector<Finding> judge(const KernelCall& call, StageKernels kernels) const = 0;
  // Why these kernels cannot be timed on the case; empty when they can.
  virtual std::string refusal(StageKernels) const { return ""; }
};

// Throws std::invalid_argument for a recipe that has nothing to time.
void require_work(const Recipe& recipe);

// For a recipe that has: its operator, and of index_scores index_select too.
std::vector<std::unique_ptr<BenchCase>> make_bench_cases(const Recipe& recipe);

// The chain of a recipe of index_scores: scores, the best keys of them, their slots where there is
// a block table, and sparse_attention of 64 heads over those, on a cache of as many slots and the
// same pages. Throws std::invalid_argument for another recipe, and for more than one request.
std::unique_ptr<BenchCase> make_chain_bench(const Recipe& recipe);

namespace detail {

std::unique_ptr<BenchCase> attention_bench(const SparseAttentionRecipe& recipe);
std::unique_ptr<BenchCase> index_scores_bench(std::shared_ptr<const IndexScoresCase> scores);
std::unique_ptr<BenchCase> index_select_bench(std::shared_ptr<const IndexScoresCase> scores);
std::unique_ptr<BenchCase> top_k_bench(const TopKRecipe& recipe);

// Of the scores of a call's rows, but for the writing of them.
CallWork work_of_scores(const IndexScoresProblem& problem, const TimedCalls& timed);

inline double real(std::int64_t x) { return static_cast<double>(x); }

// Of a row of the cache.
std::int64_t row_bytes(const SparseAttentionRecipe& recipe);

// Elements of a stage's output that still have all bits as they were before the call.
Finding unwritten(const KernelCall& call, CallTensor tensor, std::size_t element_bytes,
                  std::size_t stage = 0);
// Elements that the findings of judge() have put to the oracle: not those of unwritten(), which
// looks at no value.
std::int64_t judged_elements(const std::vector<Finding>& findings);

// Row t, counted over all calls, of one of a stage's outputs.
std::span<const std::byte> output_row(const KernelCall& call, CallTensor tensor,
                                      std::int64_t tokens, std::int64_t t, std::size_t stage = 0);
template <class T>
std::vector<T> values_of_row(const KernelCall& call, CallTensor tensor, std::int64_t tokens,
                             std::int64_t t, std::size_t stage = 0) {
  const std::span<const std::byte> bytes = output_row(call, tensor, tokens, t, stage);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Evenly spread over `rows`, the last among them: as many as are cheap for the oracle, which does
// so many products for each.
std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t products);

}  // namespace detail

}  // namespace mlacheck
