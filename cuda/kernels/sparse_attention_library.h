#pragma once

#include <cstdint>
#include <string>

#include "cuda/kernels/library_support.h"
#include "cuda/kernels/sparse_attention_contract.h"
#include "cuda/kernels/sparse_attention_launch.h"

// sparse_attention as kernels of the library.
namespace mlacheck::kernels {

// What the launches may touch, for the emulator.
inline void declare_tensors(device::Stream& stream, const mlacheck_sparse_attention_problem& p,
                            const mlacheck_tensors& t) {
  using device::Access;
  const auto declare = [&](const char* name, const void* data, std::int64_t bytes, Access access) {
    declare_tensor(stream, name, data, bytes, access);
  };
  const std::int64_t rows = p.tokens * p.heads;
  if (rows > 0) {
    declare("q", t.q,
            2 * ((p.tokens - 1) * p.q_token_stride + (p.heads - 1) * p.q_head_stride + p.qk_dim),
            Access::read);
    declare("indices", t.indices, 4 * ((p.tokens - 1) * p.index_stride + p.topk), Access::read);
  }
  if (p.kv.slots > 0) {
    const std::int64_t last = p.kv.slots - 1;
    declare("kv", t.cache,
            last / p.kv.page_size * p.kv.page_stride + last % p.kv.page_size * p.kv.row_stride +
                p.qk_dim * 2,
            Access::read);
  }
  declare("topk_length", t.topk_length, 4 * p.tokens, Access::read);
  declare("attn_sink", t.attn_sink, 4 * p.heads, Access::read);
  declare("out", t.out, rows * p.v_dim * (p.out_dtype == MLACHECK_F32 ? 4 : 2), Access::write);
  declare("lse", t.lse, 4 * rows, Access::write);
  declare("max_logit", t.max_logit, 4 * rows, Access::write);
}

// A kernel's contract has one type of weights, that of q: a kernel for each.
template <mlacheck_dtype Element>
struct SparseAttention {
  using Problem = mlacheck_sparse_attention_problem;
  static constexpr mlacheck_operator kOp = MLACHECK_SPARSE_ATTENTION;
  static constexpr const char* kOpName = "sparse_attention (1)";
  static const Problem& problem(const mlacheck_problem& p) { return p.u.sparse_attention; }

  static std::string refusal_of(const Problem& p) {
    return first_of({q_dtype_refusal<Element>(p.q_dtype), refusal(p)});
  }
  static std::uint64_t bytes(const Problem& p, unsigned multiprocessors) {
    return workspace_bytes(make_plan(p, multiprocessors));
  }
  static std::string flaw(const Problem& p, const mlacheck_tensors& t) {
    const bool any = p.tokens > 0;
    return first_of({absence("q", any, t.q), absence("indices", any && p.topk > 0, t.indices),
                     absence("topk_length", any && p.has_topk_length != 0, t.topk_length),
                     absence("attn_sink", any && p.has_attn_sink != 0, t.attn_sink),
                     absence("out", any, t.out), absence("lse", any, t.lse),
                     misalignment("cache", t.cache, 16), misalignment("q", t.q, 4),
                     misalignment("out", t.out, p.out_dtype == MLACHECK_F32 ? 8 : 4)});
  }
  static void start(device::Stream& stream, const Problem& p, const mlacheck_tensors& t,
                    void* workspace, unsigned multiprocessors) {
    declare_tensors(stream, p, t);
    const SparseAttentionPlan plan = make_plan(p, multiprocessors);
    const SparseAttentionArguments arguments = make_arguments(p, t, plan, workspace);
    if (plan.group_heads == 16)
      launch_sparse_attention<kElementOf<Element>, 16>(stream, plan, arguments);
    else
      launch_sparse_attention<kElementOf<Element>, 64>(stream, plan, arguments);
  }
};

inline constexpr mlacheck_kernel kSparseAttentionF16 =
    declared<Functions<SparseAttention<MLACHECK_F16>>>(
        MLACHECK_SPARSE_ATTENTION, "sparse_attention_f16",
        "f16 rows and queries, any heads, any topk, flat or paged",
        attention_contract(MLACHECK_F16));
inline constexpr mlacheck_kernel kSparseAttentionBf16 =
    declared<Functions<SparseAttention<MLACHECK_BF16>>>(
        MLACHECK_SPARSE_ATTENTION, "sparse_attention_bf16",
        "bf16 rows and queries, any heads, any topk, flat or paged",
        attention_contract(MLACHECK_BF16));

}  // namespace mlacheck::kernels
