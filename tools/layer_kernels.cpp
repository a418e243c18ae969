#include "tools/layer_kernels.h"

#include <algorithm>

#include "reference/formats/bf16.h"
#include "reference/layer/index_operands.h"
#include "tools/kernel_checks.h"

namespace mlacheck {

namespace {

std::vector<Bf16> rounded(const float* from, std::int64_t count) {
  std::vector<Bf16> to(static_cast<std::size_t>(count));
  std::transform(from, from + count, to.begin(), [](float x) { return to_bf16(x); });
  return to;
}

// The same problem with bf16 queries and rows: what kernels expect.
class Bf16Attention {
 public:
  explicit Bf16Attention(const SparseAttentionProblem& problem) : problem_(problem) {
    const auto* q = static_cast<const float*>(problem.q.data);
    const auto* kv = static_cast<const float*>(problem.kv.data);
    const std::int64_t q_count = problem.tokens * problem.q.token_stride;
    const std::int64_t kv_count = problem.kv.slots * problem.qk_dim;
    q_ = rounded(q, q_count);
    kv_ = rounded(kv, kv_count);
    const auto same = [](Bf16 a, float b) { return to_float(a) == b; };
    is_exact_ =
        std::equal(q_.begin(), q_.end(), q, same) && std::equal(kv_.begin(), kv_.end(), kv, same);
    problem_.q.data = q_.data();
    problem_.q.dtype = DType::bf16;
    problem_.kv = flat_rows(kv_.data(), DType::bf16, problem.kv.slots, problem.qk_dim);
    problem_.out_dtype = DType::bf16;
  }
  const SparseAttentionProblem& problem() const { return problem_; }
  bool is_exact() const { return is_exact_; }

 private:
  SparseAttentionProblem problem_;
  std::vector<Bf16> q_;
  std::vector<Bf16> kv_;
  bool is_exact_ = false;
};

// The layer's index queries and keys, rounded to bf16: one request, each row sees the keys up to
// its own.
class Bf16Index {
 public:
  Bf16Index(const ModelSizes& sizes, const LayerNumerics& numerics, const LayerInput& input,
            const LayerStages& stages) {
    const RopeTable table =
        rope_table(sizes.rope, sizes.qk_rope_head_dim, input.positions, numerics.rope_table);
    const ScoredVectors q =
        scored_vectors(stages.index_q, sizes, numerics, table, input.first_query_row, 0);
    const ScoredVectors k = scored_vectors(stages.index_k, sizes, numerics, table, 0, 0);
    q_ = rounded(q.values.data(), std::ssize(q.values));
    k_ = rounded(k.values.data(), std::ssize(k.values));
    const std::int64_t keys = stages.index_k.rows;
    for (std::int64_t r = 0; r < stages.index_q.rows; ++r)
      key_end_.push_back(static_cast<std::int32_t>(input.first_query_row + r + 1));
    problem_.tokens = stages.index_q.rows;
    problem_.heads = sizes.index_n_heads;
    problem_.dim = sizes.index_head_dim;
    problem_.key_count = keys;
    problem_.q = {q_.data(), DType::bf16, problem_.heads * problem_.dim, problem_.dim};
    problem_.weights = stages.index_weights.data.data();
    problem_.keys = flat_rows(k_.data(), DType::bf16, keys, problem_.dim);
    problem_.key_end = key_end_.data();
  }
  Bf16Index(const Bf16Index&) = delete;
  Bf16Index& operator=(const Bf16Index&) = delete;
  const IndexScoresProblem& problem() const { return problem_; }

 private:
  std::vector<Bf16> q_;
  std::vector<Bf16> k_;
  std::vector<std::int32_t> key_end_;
  IndexScoresProblem problem_;
};

bool all_refused(const std::vector<CheckResult>& results) {
  return std::ranges::all_of(results,
                             [](const CheckResult& r) { return r.status == Status::refused; });
}

}  // namespace

std::vector<CheckResult> check_layer_kernels(const ModelSizes& sizes, const LayerNumerics& numerics,
                                             const LayerInput& input, const LayerStages& stages,
                                             const KernelLibrary& library,
                                             const std::string& repro) {
  const auto operands = [&](const IndexRows& indices) {
    return AttentionOperands(sizes, numerics, stages.q_latent, stages.q_pe, stages.kv, stages.k_pe,
                             indices);
  };
  const IndexRows selected{stages.topk_indices.data(), stages.q.rows, stages.topk};
  const AttentionOperands attention = operands(input.forced_indices.value_or(selected));
  const Bf16Attention bf16(attention.problem());
  std::vector<CheckResult> results = check_attention_kernels(
      bf16.is_exact() ? bf16.problem() : attention.problem(), library, repro);
  if (!bf16.is_exact() && all_refused(results))
    results = check_attention_kernels(bf16.problem(), library, repro);
  const bool has_indexer = stages.index_q.rows > 0;
  if (!has_indexer || numerics.index_quantisation != IndexQuantisation::none) return results;

  const Bf16Index index(sizes, numerics, input, stages);
  IndexKernelsCheck indexer = check_index_kernels(index.problem(), stages.topk, library, repro);
  std::ranges::move(indexer.results, std::back_inserter(results));
  if (indexer.selected.empty()) return results;
  const AttentionOperands own = operands({indexer.selected.data(), stages.q.rows, stages.topk});
  for (CheckResult& result :
       check_attention_kernels(Bf16Attention(own.problem()).problem(), library, repro)) {
    result.name = "chain " + result.name;
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace mlacheck
