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
                            const mlacheck_tensors& t, void* workspace,
                            std::int64_t workspace_bytes) {
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
  declare("workspace", workspace, workspace_bytes, Access::write);
}

// Which address the kernels cannot take; empty when they take all.
inline std::string misaligned(const mlacheck_sparse_attention_problem& p, const mlacheck_tensors& t,
                              const void* workspace) {
  const bool any = p.tokens > 0;
  std::string text = first_of(
      {absence("q", any, t.q), absence("indices", any && p.topk > 0, t.indices),
       absence("topk_length", any && p.has_topk_length != 0, t.topk_length),
       absence("attn_sink", any && p.has_attn_sink != 0, t.attn_sink), absence("out", any, t.out),
       absence("lse", any, t.lse), misalignment("cache", t.cache, 16)});
  if (text.empty()) text = misalignment("q", t.q, 4);
  if (text.empty()) text = misalignment("out", t.out, p.out_dtype == MLACHECK_F32 ? 8 : 4);
  if (text.empty()) text = misalignment("workspace", workspace, 256);
  return text;
}

// A kernel's contract has one type of weights, that of q: a kernel for each.
template <mlacheck_dtype Element>
struct SparseAttention {
  static constexpr const char* kElement = Element == MLACHECK_F16 ? "f16 (2)" : "bf16 (3)";

  static int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
    return guarded(why, why_size, 0, [&] {
      if (problem->op != MLACHECK_SPARSE_ATTENTION)
        return "op " + std::to_string(problem->op) + ": this kernel runs sparse_attention (1)";
      const mlacheck_sparse_attention_problem& p = problem->u.sparse_attention;
      if (p.q_dtype != Element)
        return "q_dtype " + std::to_string(p.q_dtype) + ": this kernel takes " + kElement;
      std::string reason = refusal(p);
      return reason.empty() ? device::machine().refusal : reason;
    });
  }

  static int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
    char unheard[1];
    return guarded(unheard, sizeof unheard, 1, [&] {
      const device::Machine machine = device::machine();
      *bytes = workspace_bytes(make_plan(problem->u.sparse_attention, machine.multiprocessors));
      return machine.refusal;
    });
  }

  static int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
                 std::uint64_t workspace_given, void* stream_handle, char* why,
                 std::size_t why_size) {
    return guarded(why, why_size, 1, [&]() -> std::string {
      const mlacheck_sparse_attention_problem& p = problem->u.sparse_attention;
      const device::Machine machine = device::machine();
      if (!machine.refusal.empty()) return machine.refusal;
      const SparseAttentionPlan plan = make_plan(p, machine.multiprocessors);
      const std::uint64_t needed = workspace_bytes(plan);
      if (workspace_given < needed)
        return "workspace: " + std::to_string(workspace_given) + " bytes, needs " +
               std::to_string(needed);
      std::string reason = misaligned(p, *tensors, needed > 0 ? workspace : nullptr);
      if (!reason.empty()) return reason;
      device::Stream stream(stream_handle);
      declare_tensors(stream, p, *tensors, workspace, static_cast<std::int64_t>(needed));
      const SparseAttentionArguments arguments = make_arguments(p, *tensors, plan, workspace);
      constexpr auto kE = Element == MLACHECK_F16 ? device::Element::f16 : device::Element::bf16;
      if (plan.group_heads == 16)
        launch_sparse_attention<kE, 16>(stream, plan, arguments);
      else
        launch_sparse_attention<kE, 64>(stream, plan, arguments);
      return "";
    });
  }
};

inline constexpr mlacheck_kernel kSparseAttentionF16 = declared<SparseAttention<MLACHECK_F16>>(
    MLACHECK_SPARSE_ATTENTION, "sparse_attention_f16",
    "f16 rows and queries, any heads, any topk, flat or paged", attention_contract(MLACHECK_F16));
inline constexpr mlacheck_kernel kSparseAttentionBf16 = declared<SparseAttention<MLACHECK_BF16>>(
    MLACHECK_SPARSE_ATTENTION, "sparse_attention_bf16",
    "bf16 rows and queries, any heads, any topk, flat or paged", attention_contract(MLACHECK_BF16));

}  // namespace mlacheck::kernels
