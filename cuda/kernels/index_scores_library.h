#pragma once

#include <algorithm>
#include <string>

#include "cuda/kernels/index_scores_launch.h"
#include "cuda/kernels/library_support.h"

// index_scores as kernels of the library: what they take, refuse and declare.
namespace mlacheck::kernels {

inline void declare_tensors(device::Stream& stream, const mlacheck_index_scores_problem& p,
                            const mlacheck_tensors& t) {
  using device::Access;
  if (p.tokens == 0 || p.key_count == 0) return;
  declare_tensor(
      stream, "q", t.q,
      2 * ((p.tokens - 1) * p.q_token_stride + (p.heads - 1) * p.q_head_stride + kIndexDim),
      Access::read);
  declare_tensor(stream, "weights", t.weights, p.tokens * p.heads * 4, Access::read);
  if (p.keys.slots > 0) {
    const std::int64_t last = p.keys.slots - 1;
    declare_tensor(stream, "keys", t.cache,
                   last / p.keys.page_size * p.keys.page_stride +
                       last % p.keys.page_size * p.keys.row_stride + kIndexRowBytes,
                   Access::read);
  }
  if (p.has_block_table != 0) {
    // The problem does not say how many rows it has.
    std::int32_t last = 0;
    if (p.has_request != 0) last = *std::max_element(t.request, t.request + p.tokens);
    declare_tensor(stream, "block_table", t.block_table, (last + 1) * p.block_table_stride * 4,
                   Access::read);
  }
  if (p.has_request != 0) declare_tensor(stream, "request", t.request, p.tokens * 4, Access::read);
  if (p.has_key_range != 0) {
    declare_tensor(stream, "range_begin", t.range_begin, p.tokens * 4, Access::read);
    declare_tensor(stream, "range_end", t.range_end, p.tokens * 4, Access::read);
  }
  declare_tensor(stream, "scores", t.scores_out,
                 ((p.tokens - 1) * p.score_stride + p.key_count) * 4, Access::write);
}

// Which tensors the kernel cannot take; empty when it takes all.
inline std::string flaw_of(const mlacheck_index_scores_problem& p, const mlacheck_tensors& t) {
  const bool any = p.tokens > 0 && p.key_count > 0;
  return first_of({absence("q", any, t.q), absence("weights", any, t.weights),
                   absence("cache", any && p.keys.slots > 0, t.cache),
                   absence("block_table", any && p.has_block_table != 0, t.block_table),
                   absence("request", any && p.has_request != 0, t.request),
                   absence("range_begin", any && p.has_key_range != 0, t.range_begin),
                   absence("range_end", any && p.has_key_range != 0, t.range_end),
                   misalignment("cache", t.cache, 16), misalignment("q", t.q, 16),
                   misalignment("weights", t.weights, 4)});
}

// A kernel takes queries and keys of one type: a kernel for each.
template <mlacheck_dtype Element>
struct IndexScoresKernel {
  struct Problem : mlacheck_index_scores_problem {
    bool masks;
  };
  static constexpr mlacheck_operator kOp = MLACHECK_INDEX_SCORES;
  static constexpr const char* kOpName = "index_scores (2)";
  static Problem problem(const mlacheck_problem& p) {
    return {p.u.index_scores,
            !(MLACHECK_PROBLEM_HAS(&p, unmasked_scores) && p.unmasked_scores != 0)};
  }

  static std::string refusal_of(const Problem& p) {
    return first_of({q_dtype_refusal<Element>(p.q_dtype), refusal(p)});
  }
  static std::uint64_t bytes(const Problem&, unsigned) { return 0; }
  static std::string flaw(const Problem& p, const mlacheck_tensors& t) {
    return first_of({flaw_of(p, t),
                     absence("scores_out", p.tokens > 0 && p.key_count > 0, t.scores_out),
                     misalignment("scores_out", t.scores_out, 4)});
  }
  static void start(device::Stream& stream, const Problem& p, const mlacheck_tensors& t, void*,
                    unsigned multiprocessors) {
    if (!device::kOnDevice) declare_tensors(stream, p, t);
    const IndexScoresPlan plan = make_plan(p, multiprocessors);
    launch_index_scores<kElementOf<Element>>(stream, plan, make_arguments(p, t, plan, p.masks));
  }
};

// The order of the sum over heads: index_scores.h.
inline constexpr mlacheck_contract kIndexScoresContract = {
    .struct_size = sizeof(mlacheck_contract),
    .tile = 0,
    .qk = kUnused,
    .pv = kUnused,
    .weight_sum = kUnused,
    .index_dot = kTensorCore,
    .index_heads = {1, MLACHECK_SUM_LANES16, 0, 25, 0},
    .weight_dtype = MLACHECK_F32,
    .weights_normalised = 0,
    .sums_rounded = 0,
    .max_splits = 1,
    .partial_dtype = MLACHECK_F32,
    .score_dtype = MLACHECK_F32,
    .flushes_subnormals = 0,
    .batch_invariant = 1,
    .run_deterministic = 1,
    .weight_scale = 1,
    .exp_error = 0,
    .exp_underflow = 0,
    .log_error = 0,
    .max_headroom = 0,
};

inline constexpr mlacheck_kernel kIndexScoresF16 =
    declared<Functions<IndexScoresKernel<MLACHECK_F16>>>(
        MLACHECK_INDEX_SCORES, "index_scores_f16",
        "f16 keys and queries of 128 dims, any heads, flat or paged", kIndexScoresContract);
inline constexpr mlacheck_kernel kIndexScoresBf16 =
    declared<Functions<IndexScoresKernel<MLACHECK_BF16>>>(
        MLACHECK_INDEX_SCORES, "index_scores_bf16",
        "bf16 keys and queries of 128 dims, any heads, flat or paged", kIndexScoresContract);

}  // namespace mlacheck::kernels
