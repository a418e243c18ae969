#include "reference/operators/sparse_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>

#include "reference/arithmetic/dot_block.h"
#include "reference/arithmetic/exp2.h"
#include "reference/arithmetic/log2.h"
#include "reference/arithmetic/ordered_sum.h"
#include "reference/arithmetic/ordered_weighted_sums.h"
#include "reference/operators/parallel_rows.h"
#include "reference/operators/require.h"
#include "reference/operators/size.h"

namespace mlacheck {
namespace {

using detail::require;
using detail::size;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kHeadBlock = 32;  // heads that share one gather of the KV rows
constexpr int kHeadTile = 4;             // heads that share one load of a value

float exp_of(float x) { return exp2_f32(x * kLog2E); }

// Up to kHeadBlock heads of one token.
class HeadBlock {
 public:
  HeadBlock(const SparseAttentionProblem& problem, DType weight_dtype)
      : problem_(problem),
        weight_dtype_(weight_dtype),
        queries_(size(kHeadBlock * problem.qk_dim)),
        products_(size(kHeadBlock * problem.v_dim)) {}

  void attend(std::int64_t t, std::int64_t first_head, SparseAttentionResult& result) {
    const std::vector<std::int32_t> slots = present_slots(problem_, t);
    const std::int64_t heads = std::min(kHeadBlock, problem_.heads - first_head);
    const std::int64_t dim = problem_.qk_dim;
    n_ = static_cast<std::int64_t>(slots.size());
    scores_.resize(size(kHeadBlock * n_));
    rows_.resize(size(n_ * dim));
    for (std::int64_t h = 0; h < heads; ++h)
      load_row(query_address(problem_.q, t, first_head + h), problem_.q.dtype, dim,
               queries_.data() + h * dim);
    for (std::int64_t j = 0; j < n_; ++j)
      load_row(row_address(problem_.kv, slots[size(j)]), problem_.kv.dtype, dim,
               rows_.data() + j * dim);
    score(heads);
    for (std::int64_t h = 0; h < heads; ++h) softmax(h);
    multiply_values(heads);
    for (std::int64_t h = 0; h < heads; ++h) finish(t, first_head + h, h, result);
  }

 private:
  void score(std::int64_t heads) {
    const std::int64_t dim = problem_.qk_dim;
    dot_block({.x = queries_.data(),
               .x_stride = dim,
               .tokens = heads,
               .w = rows_.data(),
               .outputs = n_,
               .n = dim,
               .y = scores_.data(),
               .y_stride = n_});
    for (std::int64_t i = 0; i < heads * n_; ++i) scores_[size(i)] *= problem_.sm_scale;
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
    std::int64_t h = 0;
    for (; h + kHeadTile <= heads; h += kHeadTile) multiply_values_of<kHeadTile>(h);
    for (; h < heads; ++h) multiply_values_of<1>(h);
  }

  template <int kHeads>
  void multiply_values_of(std::int64_t h) {
    const std::int64_t columns = problem_.v_dim;
    ordered_weighted_sums<kHeads>(scores_.data() + h * n_, n_, rows_.data(), problem_.qk_dim, n_,
                                  columns, products_.data() + h * columns, columns);
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
  std::int64_t n_ = 0;           // present entries
  std::vector<float> queries_;   // [kHeadBlock, qk_dim]
  std::vector<float> rows_;      // [n, qk_dim]
  std::vector<float> scores_;    // [kHeadBlock, n], later the weights
  std::vector<float> products_;  // [kHeadBlock, v_dim]
  std::array<float, kHeadBlock> max_{};
  std::array<float, kHeadBlock> sum_{};
};

void require_wide_float(const char* field, DType dtype) {
  require(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          "{}: expected f32, f16 or bf16, got {}", field, name_of(dtype));
}

}  // namespace

void require_valid_sizes(const SparseAttentionProblem& problem) {
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
}

void require_valid_length(const SparseAttentionProblem& problem, std::int64_t t) {
  if (problem.topk_length == nullptr) return;
  require(problem.topk_length[t] >= 0 && problem.topk_length[t] <= problem.topk,
          "topk_length[{}]: expected 0 .. topk {}, got {}", t, problem.topk,
          problem.topk_length[t]);
}

void require_valid(const SparseAttentionProblem& problem) {
  require_valid_sizes(problem);
  for (std::int64_t t = 0; t < problem.tokens; ++t) require_valid_length(problem, t);
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
  detail::parallel_rows(
      problem.tokens * blocks, [&] { return HeadBlock(problem, numerics.weight_dtype); },
      [&](std::int64_t work, HeadBlock& block) {
        block.attend(work / blocks, work % blocks * kHeadBlock, result);
      });
  return result;
}

}  // namespace mlacheck
