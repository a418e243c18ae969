// The project's kernels as a kernel library (cuda/include/mlacheck_kernel.h): compiled by nvcc for
// GPUs, by the host's compiler for the emulator.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <string>

#include "cuda/kernels/sparse_attention_combine.h"
#include "cuda/kernels/sparse_attention_launch.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::kernels;

void say(char* why, std::size_t size, const std::string& text) {
  if (size == 0) return;
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, why);
  why[length] = '\0';
}

// What the launches may touch, for the emulator.
void declare_tensors(device::Stream& stream, const mlacheck_sparse_attention_problem& p,
                     const mlacheck_tensors& t, void* workspace, std::uint64_t workspace_bytes) {
  using device::Access;
  const auto bytes = [](std::int64_t elements, std::int64_t size) {
    return static_cast<std::uint64_t>(elements * size);
  };
  const auto declare = [&](const char* name, const void* data, std::uint64_t size, Access access) {
    if (data != nullptr && size > 0) device::declare_memory(stream, name, data, size, access);
  };
  const std::int64_t rows = p.tokens * p.heads;
  if (rows > 0) {
    declare(
        "q", t.q,
        bytes((p.tokens - 1) * p.q_token_stride + (p.heads - 1) * p.q_head_stride + p.qk_dim, 2),
        Access::read);
    declare("indices", t.indices, bytes((p.tokens - 1) * p.index_stride + p.topk, 4), Access::read);
  }
  if (p.kv.slots > 0) {
    const std::int64_t last = p.kv.slots - 1;
    declare("kv", t.cache,
            bytes(last / p.kv.page_size * p.kv.page_stride +
                      last % p.kv.page_size * p.kv.row_stride + p.qk_dim * 2,
                  1),
            Access::read);
  }
  declare("topk_length", t.topk_length, bytes(p.tokens, 4), Access::read);
  declare("attn_sink", t.attn_sink, bytes(p.heads, 4), Access::read);
  declare("out", t.out, bytes(rows * p.v_dim, p.out_dtype == MLACHECK_F32 ? 4 : 2), Access::write);
  declare("lse", t.lse, bytes(rows, 4), Access::write);
  declare("max_logit", t.max_logit, bytes(rows, 4), Access::write);
  declare("workspace", workspace, workspace_bytes, Access::write);
}

// Which address the kernels cannot take; empty when they take all.
std::string misaligned(const mlacheck_sparse_attention_problem& p, const mlacheck_tensors& t,
                       const void* workspace) {
  const auto flaw = [](const char* name, const void* data, std::uintptr_t alignment) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return address % alignment == 0
               ? std::string()
               : std::string(name) + " at an address of " + std::to_string(address % alignment) +
                     " modulo " + std::to_string(alignment) + ": a multiple of it";
  };
  std::string text = flaw("cache", t.cache, 16);
  if (text.empty()) text = flaw("q", t.q, 4);
  if (text.empty()) text = flaw("out", t.out, p.out_dtype == MLACHECK_F32 ? 8 : 4);
  if (text.empty()) text = flaw("workspace", workspace, 256);
  return text;
}

// No exception leaves a C function: its text becomes the reason.
template <class F>
int guarded(char* why, std::size_t why_size, int failure, F f) {
  try {
    const std::string reason = f();
    say(why, why_size, reason);
    return reason.empty() ? 1 - failure : failure;
  } catch (const std::exception& error) {
    say(why, why_size, error.what());
    return failure;
  }
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
      declare_tensors(stream, p, *tensors, workspace, needed);
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

constexpr mlacheck_conventions kConventions = {
    .struct_size = sizeof(mlacheck_conventions),
    .lse_base = MLACHECK_LSE_NATURAL,
    .lse_empty = MLACHECK_EMPTY_MINUS_INF,
    .sink_in_lse = 0,
    .duplicates_once = 0,
    .row_relative = 0,
    .any_order = 0,
    .any_tie = 0,
    .nan_first = 0,
    .unmasked_scores = 0,
    .record_reader = 0,
};

// Tensor-core steps of 16 products (reference/arithmetic/tensor_core.h).
constexpr mlacheck_accumulation kTensorCore = {16, MLACHECK_SUM_SEQUENTIAL, 1, 25, 0};

constexpr mlacheck_accumulation kUnused = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 0};

constexpr mlacheck_contract contract(mlacheck_dtype element) {
  return {
      .struct_size = sizeof(mlacheck_contract),
      .tile = kTileRows,
      .qk = kTensorCore,  // four chains of 9 steps, then two additions: less than 36 steps
      .pv = kTensorCore,
      // A lane adds four weights of a tile, then the tile's sum; four lanes at the end.
      .weight_sum = {1, MLACHECK_SUM_LANES16, 0, 25, 0},
      .index_dot = kUnused,
      .index_heads = kUnused,
      .weight_dtype = element,
      .weights_normalised = 0,
      .sums_rounded = 0,
      .max_splits = SparseAttentionCombine::kMaxChunks,
      .partial_dtype = MLACHECK_F32,
      .score_dtype = MLACHECK_F32,
      .flushes_subnormals = 0,
      .batch_invariant = 1,
      .run_deterministic = 1,
      .weight_scale = 1,
      .exp_error = kExp2Error,
      .exp_underflow = 0x1p-126f,
      .log_error = kLnError,
      .max_headroom = kRaiseThreshold,
  };
}

template <mlacheck_dtype Element>
constexpr mlacheck_kernel sparse_attention(const char* name, const char* description) {
  return {.struct_size = sizeof(mlacheck_kernel),
          .op = MLACHECK_SPARSE_ATTENTION,
          .name = name,
          .description = description,
          .memory = device::kOnDevice ? MLACHECK_DEVICE : MLACHECK_HOST,
          .reserved = 0,
          .conventions = kConventions,
          .contract = contract(Element),
          .supports = SparseAttention<Element>::supports,
          .workspace_size = SparseAttention<Element>::workspace_size,
          .run = SparseAttention<Element>::run,
          .relu_drops_nan = 0,
          .reserved_2 = 0};
}

constexpr mlacheck_kernel kSparseAttentionF16 = sparse_attention<MLACHECK_F16>(
    "sparse_attention_f16", "f16 rows and queries, any heads, any topk, flat or paged");
constexpr mlacheck_kernel kSparseAttentionBf16 = sparse_attention<MLACHECK_BF16>(
    "sparse_attention_bf16", "bf16 rows and queries, any heads, any topk, flat or paged");

constexpr const mlacheck_kernel* kKernels[] = {&kSparseAttentionF16, &kSparseAttentionBf16};

constexpr mlacheck_library kLibrary = {
    .struct_size = sizeof(mlacheck_library),
    .abi_version = MLACHECK_ABI_VERSION,
    .name = device::kOnDevice ? "mlacheck GPU kernels" : "mlacheck GPU kernels, emulated",
    .version = MLACHECK_VERSION,
    .kernels = kKernels,
    .kernel_count = std::size(kKernels),
    .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(
    std::uint32_t abi_version) {
  return abi_version == MLACHECK_ABI_VERSION ? &kLibrary : nullptr;
}
