#include "tools/layer_kernels.h"

#include "reference/formats/bf16.h"
#include "tools/kernel_checks.h"

namespace mlacheck {

namespace {

// The same problem with bf16 queries and rows, where bf16 holds their values: what kernels expect.
class NarrowAttention {
 public:
  explicit NarrowAttention(const SparseAttentionProblem& problem) : problem_(problem) {
    const auto* q = static_cast<const float*>(problem.q.data);
    const auto* kv = static_cast<const float*>(problem.kv.data);
    const std::int64_t q_count = problem.tokens * problem.q.token_stride;
    const std::int64_t kv_count = problem.kv.slots * problem.qk_dim;
    if (!narrow(q, q_count, q_) || !narrow(kv, kv_count, kv_)) return;
    problem_.q.data = q_.data();
    problem_.q.dtype = DType::bf16;
    problem_.kv = flat_rows(kv_.data(), DType::bf16, problem.kv.slots, problem.qk_dim);
  }
  const SparseAttentionProblem& problem() const { return problem_; }

 private:
  static bool narrow(const float* from, std::int64_t count, std::vector<Bf16>& to) {
    for (std::int64_t i = 0; i < count; ++i) {
      to.push_back(to_bf16(from[i]));
      if (to_float(to.back()) != from[i]) return false;
    }
    return true;
  }

  SparseAttentionProblem problem_;
  std::vector<Bf16> q_;
  std::vector<Bf16> kv_;
};

}  // namespace

std::vector<CheckResult> check_layer_kernels(const ModelSizes& sizes, const LayerNumerics& numerics,
                                             const LayerInput& input, const LayerStages& stages,
                                             const KernelLibrary& library,
                                             const std::string& repro) {
  const IndexRows selected{stages.topk_indices.data(), stages.q.rows, stages.topk};
  const AttentionOperands attention(sizes, numerics, stages.q_latent, stages.q_pe, stages.kv,
                                    stages.k_pe, input.forced_indices.value_or(selected));
  return check_attention_kernels(NarrowAttention(attention.problem()).problem(), library, repro);
}

}  // namespace mlacheck
