#include "reference/operators/sparse_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_sum.h"
#include "reference/operators/require.h"
#include "reference/operators/value_product.h"

namespace mlacheck {
namespace {

using detail::require;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kHeadBlock = 32;  // heads that share one gather of the KV rows
constexpr std::int64_t kRowTile = 4;     // gathered rows that stay in the first cache for all heads

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

float exp_of(float x) { return exp2_f32(x * kLog2E); }

// dots[r] = ordered_dot(x, rows + r * n, n), r = 0 .. kRows - 1.
template <std::size_t kRows>
std::array<float, kRows> ordered_dots(const float* x, const float* rows, std::int64_t n) {
  std::array<SumLanes, kRows> lanes;
  lanes.fill(SumLanes::Zero());
  std::int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    const SumLanes factor = Eigen::Map<const SumLanes>(x + i);
    for (std::size_t r = 0; r < kRows; ++r)
      lanes[r] += factor * Eigen::Map<const SumLanes>(rows + static_cast<std::int64_t>(r) * n + i);
  }
  std::array<float, kRows> dots;
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::int64_t l = 0; i + l < n; ++l)
      lanes[r][l] += x[i + l] * rows[static_cast<std::int64_t>(r) * n + i + l];
    dots[r] = sum_of_lanes(lanes[r]);
  }
  return dots;
}

// Up to kHeadBlock heads of one token.
class HeadBlock {
 public:
  HeadBlock(const SparseAttentionProblem& problem, DType weight_dtype)
      : problem_(problem),
        weight_dtype_(weight_dtype),
        queries_(size(kHeadBlock * problem.qk_dim)),
        rows_(size(kRowTile * problem.qk_dim)),
        values_(problem.v_dim),
        products_(size(kHeadBlock * problem.v_dim)) {}

  void attend(std::int64_t t, std::int64_t first_head, SparseAttentionResult& result) {
    const std::vector<std::int32_t> slots = present_slots(problem_, t);
    const std::int64_t heads = std::min(kHeadBlock, problem_.heads - first_head);
    n_ = static_cast<std::int64_t>(slots.size());
    scores_.resize(size(kHeadBlock * n_));
    values_.resize(n_);
    for (std::int64_t h = 0; h < heads; ++h)
      load_row(query_address(problem_.q, t, first_head + h), problem_.q.dtype, problem_.qk_dim,
               queries_.data() + h * problem_.qk_dim);
    score_rows(slots, heads);
    for (std::int64_t h = 0; h < heads; ++h) softmax(h);
    multiply_values(heads);
    for (std::int64_t h = 0; h < heads; ++h) finish(t, first_head + h, h, result);
  }

 private:
  // Row j goes once through fp32: to every head's score and to the value panels.
  void score_rows(const std::vector<std::int32_t>& slots, std::int64_t heads) {
    const std::int64_t dim = problem_.qk_dim;
    for (std::int64_t first = 0; first < n_; first += kRowTile) {
      const std::int64_t count = std::min(kRowTile, n_ - first);
      for (std::int64_t r = 0; r < count; ++r) {
        float* row = rows_.data() + r * dim;
        load_row(row_address(problem_.kv, slots[size(first + r)]), problem_.kv.dtype, dim, row);
        values_.set_value(first + r, row);
      }
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* query = queries_.data() + h * dim;
        float* scores = scores_.data() + h * n_ + first;
        std::int64_t r = 0;
        for (; r + 2 <= count; r += 2) {
          const auto dots = ordered_dots<2>(query, rows_.data() + r * dim, dim);
          scores[r] = dots[0] * problem_.sm_scale;
          scores[r + 1] = dots[1] * problem_.sm_scale;
        }
        if (r < count)
          scores[r] = ordered_dot(query, rows_.data() + r * dim, dim) * problem_.sm_scale;
      }
    }
  }

  // Scores become weights; keeps their maximum and their sum.
  void softmax(std::int64_t h) {
    float* scores = scores_.data() + h * n_;
    float max = -kInfinity;
    for (std::int64_t j = 0; j < n_; ++j)
      if (scores[j] > max || std::isnan(scores[j])) max = scores[j];
    for (std::int64_t j = 0; j < n_; ++j) scores[j] = exp_of(scores[j] - max);
    max_[size(h)] = max + 0.0f;
    sum_[size(h)] = ordered_sum(scores, n_);
    if (weight_dtype_ != DType::f32)
      for (std::int64_t j = 0; j < n_; ++j) scores[j] = round_to(weight_dtype_, scores[j]);
  }

  void multiply_values(std::int64_t heads) {
    const auto weights = [&](std::int64_t h) -> const float* { return scores_.data() + h * n_; };
    const auto product = [&](std::int64_t h) { return products_.data() + h * problem_.v_dim; };
    std::int64_t h = 0;
    for (; h + 2 <= heads; h += 2)
      values_.multiply<2>({weights(h), weights(h + 1)}, {product(h), product(h + 1)});
    if (h < heads) values_.multiply<1>({weights(h)}, {product(h)});
  }

  void finish(std::int64_t t, std::int64_t head, std::int64_t h, SparseAttentionResult& result) {
    const std::int64_t row = t * problem_.heads + head;
    const float max = max_[size(h)];
    if (max == -kInfinity) return;  // no entry, or none with a weight
    const float lse = max + log2_f32(sum_[size(h)]) * kLn2;
    result.max_logit[size(row)] = round_to(DType::f32, max);
    result.lse[size(row)] = round_to(DType::f32, lse);
    const float* product = products_.data() + h * problem_.v_dim;
    float* out = result.out.data() + row * problem_.v_dim;
    const float factor = problem_.attn_sink == nullptr
                             ? 1.0f
                             : 1.0f / (1.0f + exp_of(problem_.attn_sink[head] - lse));
    for (std::int64_t c = 0; c < problem_.v_dim; ++c)
      out[c] = round_to(problem_.out_dtype, product[c] / sum_[size(h)] * factor);
  }

  const SparseAttentionProblem& problem_;
  DType weight_dtype_;
  std::int64_t n_ = 0;          // present entries
  std::vector<float> queries_;  // [kHeadBlock, qk_dim]
  std::vector<float> rows_;     // [kRowTile, qk_dim]
  std::vector<float> scores_;   // [kHeadBlock, n], later the weights
  detail::ValuePanels values_;
  std::vector<float> products_;  // [kHeadBlock, v_dim]
  std::array<float, kHeadBlock> max_{};
  std::array<float, kHeadBlock> sum_{};
};

void require_wide_float(const char* field, DType dtype) {
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          "{}: expected f32, f16 or bf16, got {}", field, name_of(dtype));
}

}  // namespace

void require_valid(const SparseAttentionProblem& problem) {
  require(problem.tokens >= 0, "tokens: expected >= 0, got {}", problem.tokens);
  require(problem.heads >= 1, "heads: expected >= 1, got {}", problem.heads);
  require(problem.topk >= 0, "topk: expected >= 0, got {}", problem.topk);
  require(problem.v_dim >= 1, "v_dim: expected >= 1, got {}", problem.v_dim);
  require(problem.qk_dim >= problem.v_dim, "qk_dim: expected >= v_dim {}, got {}", problem.v_dim,
          problem.qk_dim);
  require_wide_float("q.dtype", problem.q.dtype);
  require_wide_float("kv.dtype", problem.kv.dtype);
  require_wide_float("out_dtype", problem.out_dtype);
  require_queries(problem.q, problem.tokens, problem.heads, problem.qk_dim, "q");
  require_rows(problem.kv, problem.qk_dim, "kv");
  require(problem.kv.scale_offset == -1, "kv.scale_offset: expected -1, got {}",
          problem.kv.scale_offset);
  require(problem.indices != nullptr || problem.tokens == 0 || problem.topk == 0,
          "indices: expected an address, got null");
  require(problem.tokens <= 1 || problem.index_stride >= problem.topk,
          "index_stride: expected >= topk {}, got {}", problem.topk, problem.index_stride);
  require(std::isfinite(problem.sm_scale), "sm_scale: expected a finite number, got {}",
          problem.sm_scale);
  for (std::int64_t t = 0; problem.topk_length != nullptr && t < problem.tokens; ++t)
    require(problem.topk_length[t] >= 0 && problem.topk_length[t] <= problem.topk,
            "topk_length[{}]: expected 0 .. topk {}, got {}", t, problem.topk,
            problem.topk_length[t]);
}

std::vector<std::int32_t> present_slots(const SparseAttentionProblem& problem, std::int64_t t) {
  const std::int64_t length =
      problem.topk_length != nullptr ? problem.topk_length[t] : problem.topk;
  std::vector<std::int32_t> slots;
  if (length == 0) return slots;  // indices may be null
  const std::int32_t* indices = problem.indices + t * problem.index_stride;
  slots.reserve(size(length));
  std::copy_if(indices, indices + length, std::back_inserter(slots),
               [&](std::int32_t index) { return index >= 0 && index < problem.kv.slots; });
  return slots;
}

SparseAttentionResult sparse_attention(const SparseAttentionProblem& problem,
                                       const SparseAttentionNumerics& numerics) {
  require_valid(problem);
  require_wide_float("weight_dtype", numerics.weight_dtype);
  const std::int64_t rows = problem.tokens * problem.heads;
  SparseAttentionResult result{std::vector<float>(size(rows * problem.v_dim)),
                               std::vector<float>(size(rows), -kInfinity),
                               std::vector<float>(size(rows), -kInfinity)};
  const std::int64_t blocks = (problem.heads + kHeadBlock - 1) / kHeadBlock;
#pragma omp parallel
  {
    HeadBlock block(problem, numerics.weight_dtype);
#pragma omp for schedule(dynamic)
    for (std::int64_t work = 0; work < problem.tokens * blocks; ++work)
      block.attend(work / blocks, work % blocks * kHeadBlock, result);
  }
  return result;
}

}  // namespace mlacheck
