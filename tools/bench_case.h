#pragma once

#include <cstdint>
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

// A recipe of an operator, to be timed: its tokens are those of all calls together.
class BenchCase {
 public:
  virtual ~BenchCase() = default;

  virtual std::int32_t op() const = 0;  // mlacheck_operator
  virtual std::unique_ptr<KernelCall> make_call(const TimedCalls& timed) const = 0;
  // Of a call, on average.
  virtual CallWork work(const TimedCalls& timed) const = 0;
  // What the calls left in their outputs: elements that nobody wrote, and some rows, of the first
  // call, the last and those between, against the oracle under the kernel's contract.
  virtual std::vector<Finding> judge(const KernelCall& call,
                                     const mlacheck_kernel& kernel) const = 0;
  // Why this kernel cannot be timed on the case; empty when it can.
  virtual std::string refusal(const mlacheck_kernel&) const { return ""; }
};

// Throws std::invalid_argument for a recipe that has nothing to time.
void require_work(const Recipe& recipe);

// For a recipe that has: its operator, and of index_scores index_select too.
std::vector<std::unique_ptr<BenchCase>> make_bench_cases(const Recipe& recipe);

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

// Elements of an output that still have all bits as they were before the call.
Finding unwritten(const KernelCall& call, CallTensor tensor, std::size_t element_bytes);

// Row t, counted over all calls, of one of their outputs.
std::span<const std::byte> output_row(const KernelCall& call, CallTensor tensor,
                                      std::int64_t tokens, std::int64_t t);

// Evenly spread over `rows`, the last among them: as many as are cheap for the oracle, which does so
// many products for each.
std::vector<std::int64_t> judged_rows(std::int64_t rows, std::int64_t products);

}  // namespace detail

}  // namespace mlacheck
