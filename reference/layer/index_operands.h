#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/formats/e4m3.h"
#include "reference/layer/matrix.h"
#include "reference/layer/model_sizes.h"
#include "reference/layer/numerics.h"
#include "reference/layer/rope.h"
#include "reference/operators/index_scores.h"

namespace mlacheck {

// Index queries or keys as they are scored: n vectors of dim and a scale for each.
struct ScoredVectors {
  std::int64_t dim = 0;
  DType dtype = DType::f32;   // f32, or e4m3 when quantised
  std::vector<float> values;  // before they are quantised
  std::vector<E4m3> codes;    // when dtype is e4m3
  std::vector<float> scales;  // 1 when not quantised

  const void* data() const {
    if (dtype == DType::e4m3) return codes.data();
    return values.data();
  }
};

// P(x) of indexer.h. Row r of x holds x.cols / index_head_dim vectors, all at position
// first_position + r of the table; amax_floor as in block_scale.h.
ScoredVectors scored_vectors(const Matrix& x, const ModelSizes& sizes,
                             const LayerNumerics& numerics, const RopeTable& table,
                             std::int64_t first_position, float amax_floor);

// index_scores of one request: the last q.rows of the keys' rows are queries, each sees the keys up
// to its own. One page of all keys: the values, then their scales.
class IndexOperands {
 public:
  // weights [rows, Hi]: as LayerStages::index_weights. q and weights are kept by address, k is
  // copied.
  IndexOperands(const ModelSizes& sizes, const ScoredVectors& q, const ScoredVectors& k,
                const Matrix& weights);
  IndexOperands(const IndexOperands&) = delete;
  IndexOperands& operator=(const IndexOperands&) = delete;

  const IndexScoresProblem& problem() const { return problem_; }

 private:
  std::vector<std::byte> page_;
  std::vector<std::int32_t> key_end_;
  IndexScoresProblem problem_;
};

}  // namespace mlacheck
