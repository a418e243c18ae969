#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"
#include "reference/layer/numerics.h"
#include "reference/operators/sparse_attention.h"

namespace mlacheck {

// Selected rows for each query row: rows of [0, S), padded with -1.
struct IndexRows {
  const std::int32_t* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

// A view of `rows` rows of indices; of none for 0.
inline IndexRows index_rows(const std::vector<std::int32_t>& indices, std::int64_t rows) {
  return {indices.data(), rows, rows == 0 ? 0 : std::ssize(indices) / rows};
}

// sparse_attention of one layer: Q[h] = [q_latent | q_pe], rows [kv | k_pe] as storage gives them
// back.
class AttentionOperands {
 public:
  // q_latent [T, H * c], q_pe [T, H * r], kv [S, c], k_pe [S, r]; indices are kept by address.
  AttentionOperands(const ModelSizes& sizes, const LayerNumerics& numerics, const Matrix& q_latent,
                    const Matrix& q_pe, const Matrix& kv, const Matrix& k_pe,
                    const IndexRows& indices);
  AttentionOperands(const AttentionOperands&) = delete;
  AttentionOperands& operator=(const AttentionOperands&) = delete;

  const SparseAttentionProblem& problem() const { return problem_; }

 private:
  Matrix q_;   // [T, H * (c + r)]
  Matrix kv_;  // [S, c + r]
  SparseAttentionProblem problem_;
};

// Attention reads these KV rows [S, c + r]: [kv | k_pe], or what the record gives back.
Matrix stored_kv(const LayerNumerics& numerics, const Matrix& kv, const Matrix& k_pe);

}  // namespace mlacheck
