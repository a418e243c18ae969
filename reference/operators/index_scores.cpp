#include "reference/operators/index_scores.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/operators/size.h"

namespace mlacheck {
namespace {

using detail::require;
using detail::size;

// Key ranges, requests and block tables are int32: with this, no key, slot or place in a block
// table overflows int64.
constexpr std::int64_t kMaxKeys = std::int64_t{1} << 31;
constexpr std::int64_t kKeyBlock = 128;  // keys of one piece of work

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

Range key_range(const IndexScoresProblem& problem, std::int64_t t) {
  return {problem.key_begin != nullptr ? problem.key_begin[t] : 0,
          problem.key_end != nullptr ? problem.key_end[t] : problem.key_count};
}

// Every key of every range has a block and a slot, so that scoring itself cannot fail.
void require_ranges(const IndexScoresProblem& problem) {
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    const auto [begin, end] = key_range(problem, t);
    require(begin >= 0 && begin <= problem.key_count, "key_begin[{}]: expected 0 .. {}, got {}", t,
            problem.key_count, begin);
    require(end >= 0 && end <= problem.key_count, "key_end[{}]: expected 0 .. {}, got {}", t,
            problem.key_count, end);
    if (problem.block_table != nullptr && problem.request != nullptr)
      require(problem.request[t] >= 0 && problem.request[t] < problem.requests,
              "request[{}]: expected 0 .. {}, got {}", t, problem.requests - 1, problem.request[t]);
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t slot = slot_of(problem, t, s);
      require(slot >= 0 && slot < problem.keys.slots,
              "key {} of row {}: expected a slot in [0, {}), got {}", s, t, problem.keys.slots,
              slot);
    }
  }
}

void require_valid(const IndexScoresProblem& problem) {
  require(problem.tokens >= 0, "tokens: expected >= 0, got {}", problem.tokens);
  require(problem.heads >= 1, "heads: expected >= 1, got {}", problem.heads);
  require(problem.dim >= 1, "dim: expected >= 1, got {}", problem.dim);
  require(problem.key_count >= 0 && problem.key_count <= kMaxKeys,
          "key_count: expected 0 .. 2^31, got {}", problem.key_count);
  require_queries(problem.q, problem.tokens, problem.heads, problem.dim, "q");
  require_rows(problem.keys, problem.dim, "keys");
  require(problem.weights != nullptr || problem.tokens == 0,
          "weights: expected an address, got null");
  if (problem.block_table != nullptr) {
    require(problem.block_size >= 1 && problem.block_size <= kMaxKeys,
            "block_size: expected 1 .. 2^31, got {}", problem.block_size);
    const std::int64_t blocks = (problem.key_count + problem.block_size - 1) / problem.block_size;
    require(problem.block_table_stride >= blocks && problem.block_table_stride <= kMaxKeys,
            "block_table_stride: expected {} .. 2^31, got {}", blocks, problem.block_table_stride);
    require(problem.requests >= 1, "requests: expected >= 1, got {}", problem.requests);
  }
  require_ranges(problem);
}

float sum_of_heads(const std::vector<float>& products, HeadReduction reduction) {
  if (reduction == HeadReduction::ordered)
    return ordered_sum(products.data(), static_cast<std::int64_t>(products.size()));
  float sum = 0;
  for (const float product : products) sum += product;
  return sum;
}

}  // namespace

std::int64_t slot_of(const IndexScoresProblem& problem, std::int64_t t, std::int64_t s) {
  if (problem.block_table == nullptr) return s;
  const std::int64_t request = problem.request != nullptr ? problem.request[t] : 0;
  const std::int64_t block =
      problem.block_table[request * problem.block_table_stride + s / problem.block_size];
  return block * problem.block_size + s % problem.block_size;
}

std::vector<float> index_scores(const IndexScoresProblem& problem, HeadReduction reduction) {
  require_valid(problem);
  std::vector<float> scores(size(problem.tokens) * size(problem.key_count),
                            -std::numeric_limits<float>::infinity());
  const std::int64_t blocks = (problem.key_count + kKeyBlock - 1) / kKeyBlock;
  struct Buffers {
    std::vector<float> q, key, products;
  };
  const auto buffers = [&] {
    return Buffers{std::vector<float>(size(problem.heads) * size(problem.dim)),
                   std::vector<float>(size(problem.dim)), std::vector<float>(size(problem.heads))};
  };
  detail::parallel_rows(problem.tokens * blocks, buffers, [&](std::int64_t work, Buffers& mine) {
    auto& [q, key, products] = mine;
    const std::int64_t t = work / blocks, block = work % blocks;
    const Range range = key_range(problem, t);
    const std::int64_t begin = std::max(range.begin, block * kKeyBlock);
    const std::int64_t end = std::min(range.end, (block + 1) * kKeyBlock);
    if (begin >= end) return;
    for (std::int64_t h = 0; h < problem.heads; ++h)
      load_row(query_address(problem.q, t, h), problem.q.dtype, problem.dim,
               q.data() + h * problem.dim);
    const float* weights = problem.weights + t * problem.heads;
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t slot = slot_of(problem, t, s);
      load_row(row_address(problem.keys, slot), problem.keys.dtype, problem.dim, key.data());
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        const float dot = ordered_dot(q.data() + h * problem.dim, key.data(), problem.dim);
        products[size(h)] = weights[h] * (dot <= 0.0f ? 0.0f : dot);
      }
      const float sum = sum_of_heads(products, reduction);
      scores[size(t * problem.key_count + s)] =
          round_to(DType::f32, sum * row_scale(problem.keys, slot));
    }
  });
  return scores;
}

}  // namespace mlacheck
