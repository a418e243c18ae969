#pragma once

#include <vector>

#include "reference/operators/sparse_attention.h"
#include "reference/verdict/numerics_contract.h"
#include "reference/verdict/sparse_attention_interval.h"
#include "reference/verdict/tally.h"

namespace mlacheck {

// A kernel's outputs, widened to fp32. lse and max_logit may be null: not returned, not judged.
struct SparseAttentionOutputs {
  const float* out = nullptr;        // [T, H, v_dim]
  const float* lse = nullptr;        // [T, H]
  const float* max_logit = nullptr;  // [T, H]
};

// Judges every element of every output against its interval: findings "sparse_attention.out",
// ".lse" and ".max_logit". Threads split tokens. Throws std::invalid_argument when problem and
// contract contradict each other.
std::vector<Finding> check_sparse_attention(const SparseAttentionProblem& problem,
                                            const NumericsContract& contract,
                                            const SparseAttentionOutputs& outputs,
                                            double lambda = kLambda);

// Collects the judgements of one token: out, lse and max_logit of token t, [H, v_dim] and [H].
struct SparseAttentionTally {
  explicit SparseAttentionTally(DType out_dtype) : out(out_dtype, {"token", "head", "dim"}) {}
  void add(const SparseAttentionInterval& interval, std::int64_t t,
           const SparseAttentionOutputs& token);
  void merge(const SparseAttentionTally& other);
  std::vector<Finding> findings() const;  // of those that were there

  Tally out;
  Tally lse{DType::f32, {"token", "head", nullptr}};
  Tally max_logit{DType::f32, {"token", "head", nullptr}};
  bool has_lse = false;
  bool has_max_logit = false;
};

}  // namespace mlacheck
