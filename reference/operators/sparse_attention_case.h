#pragma once

// A sparse attention problem that owns its storage, for tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reference/operators/sparse_attention.h"

namespace mlacheck {

inline std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

// Where the rows of a cache lie. page_size 0 is one page of all rows.
struct Paging {
  std::int64_t page_size = 0;
  std::int64_t row_padding = 0;   // elements after every row
  std::int64_t page_padding = 0;  // elements after every page
};

// Values are held as fp32 numbers of `dtype`; problem() stores them in it, gaps filled with NaN.
struct AttentionCase {
  std::int64_t tokens = 3;
  std::int64_t heads = 2;
  std::int64_t topk = 5;
  std::int64_t slots = 40;
  std::int64_t qk_dim = 40;
  std::int64_t v_dim = 24;
  DType dtype = DType::bf16;
  DType out_dtype = DType::f32;
  float sm_scale = 0.25f;
  Paging paging;
  std::int64_t query_padding = 0;     // elements after every head, and every token
  std::vector<float> q;               // [T, H, qk_dim]
  std::vector<float> kv;              // [N, qk_dim]
  std::vector<std::int32_t> indices;  // [T, K]
  std::vector<std::int32_t> lengths;  // [T] or empty
  std::vector<float> sink;            // [H] or empty

  // Uniform values in [-1, 1) and indices of which one in eight is absent.
  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto uniform = [&] {
      return round_to(dtype, static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31f);
    };
    q.resize(index_of(tokens * heads * qk_dim));
    kv.resize(index_of(slots * qk_dim));
    indices.resize(index_of(tokens * topk));
    std::generate(q.begin(), q.end(), uniform);
    std::generate(kv.begin(), kv.end(), uniform);
    for (std::int32_t& index : indices)
      index = random() % 8 == 0
                  ? -1
                  : static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(slots));
  }

  float* row(std::int64_t slot) { return kv.data() + slot * qk_dim; }

  SparseAttentionProblem problem() {
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t head_stride = qk_dim + query_padding;
    const std::int64_t token_stride = heads * head_stride + query_padding;
    q_storage_ = poisoned(tokens * token_stride);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t h = 0; h < heads; ++h)
        store_row(q.data() + (t * heads + h) * qk_dim, dtype, qk_dim,
                  q_storage_.data() + (t * token_stride + h * head_stride) * element);

    RowsView view = flat_rows(nullptr, dtype, slots, qk_dim);
    if (paging.page_size != 0) view.page_size = paging.page_size;
    view.row_stride = (qk_dim + paging.row_padding) * element;
    view.page_stride = view.page_size * view.row_stride + paging.page_padding * element;
    const std::int64_t pages = (slots + view.page_size - 1) / view.page_size;
    kv_storage_ = poisoned(pages * view.page_stride / element);
    view.data = kv_storage_.data();
    for (std::int64_t slot = 0; slot < slots; ++slot)
      store_row(row(slot), dtype, qk_dim,
                kv_storage_.data() + (row_address(view, slot) - kv_storage_.data()));

    SparseAttentionProblem result;
    result.tokens = tokens;
    result.heads = heads;
    result.topk = topk;
    result.qk_dim = qk_dim;
    result.v_dim = v_dim;
    result.q = {q_storage_.data(), dtype, token_stride, head_stride};
    result.kv = view;
    result.indices = indices.data();
    result.index_stride = topk;
    result.topk_length = lengths.empty() ? nullptr : lengths.data();
    result.attn_sink = sink.empty() ? nullptr : sink.data();
    result.sm_scale = sm_scale;
    result.out_dtype = out_dtype;
    return result;
  }

  SparseAttentionResult run() { return sparse_attention(problem()); }

 private:
  // All bits set is a NaN in every float format.
  std::vector<std::byte> poisoned(std::int64_t elements) const {
    return std::vector<std::byte>(index_of(elements) * size_of(dtype), std::byte{0xff});
  }

  std::vector<std::byte> q_storage_;
  std::vector<std::byte> kv_storage_;
};

inline testing::AssertionResult same_bits(const std::vector<float>& a,
                                          const std::vector<float>& b) {
  if (a.size() != b.size())
    return testing::AssertionFailure() << "sizes " << a.size() << " and " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]))
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  return testing::AssertionSuccess();
}

inline testing::AssertionResult same_bits(const SparseAttentionResult& a,
                                          const SparseAttentionResult& b) {
  for (const auto field : {&SparseAttentionResult::out, &SparseAttentionResult::lse,
                           &SparseAttentionResult::max_logit})
    if (auto same = same_bits(a.*field, b.*field); !same) return same;
  return testing::AssertionSuccess();
}

}  // namespace mlacheck
