#pragma once

#include <cstdint>
#include <vector>

#include "reference/operators/views.h"

namespace mlacheck {

// Lightning indexer scores. For row t and key s in [key_begin[t], key_end[t]):
//   score[t, s] = scale_s * sum_h weights[t, h] * max(0, dot(q[t, h, :], key_s))
// and -inf outside the range. scale_s is the key's own scale (fp8 pages), 1 otherwise. weights are
// already scaled by the caller. Logical key s lies at physical slot
//   block_table ? block_table[request(t), s / block_size] * block_size + s % block_size : s
struct IndexScoresProblem {
  std::int64_t tokens = 0;  // T
  std::int64_t heads = 1;   // Hi
  std::int64_t dim = 128;
  std::int64_t key_count = 0;      // columns of the result; logical keys
  QueryView q;                     // [T, Hi, dim]
  const float* weights = nullptr;  // [T, Hi]
  RowsView keys;                   // physical rows [*, dim]
  // [requests, block_table_stride] physical blocks, or null: logical = physical
  const std::int32_t* block_table = nullptr;
  std::int64_t requests = 1;            // rows of block_table
  std::int64_t block_table_stride = 0;  // elements
  std::int64_t block_size = 0;
  const std::int32_t* request = nullptr;    // [T] row of block_table, or null: 0
  const std::int32_t* key_begin = nullptr;  // [T], or null: 0
  const std::int32_t* key_end = nullptr;    // [T], or null: key_count
};

// How the Hi products of a score are added: with the ordered sum, or one after the other in
// ascending h.
enum class HeadReduction { ordered, sequential };

// fp32 scores [T, key_count]. Roundings, in order:
//   dot_h   ordered dot over dim
//   r_h     dot_h if it is > 0 or NaN, else +0
//   p_h     weights[t, h] * r_h
//   sum     of p_h by `reduction`
//   score   sum * scale_s
// A NaN in a key, query, weight or scale makes the score NaN (canonical), never 0.
// Throws std::invalid_argument naming the field; a key inside a range must have a block and a slot.
std::vector<float> index_scores(const IndexScoresProblem& problem,
                                HeadReduction reduction = HeadReduction::ordered);

// Physical slot of logical key s for row t. Shared with the oracle.
std::int64_t slot_of(const IndexScoresProblem& problem, std::int64_t t, std::int64_t s);

}  // namespace mlacheck
