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

int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  std::string reason;
  if (problem->op != MLACHECK_SPARSE_ATTENTION)
    reason = "op " + std::to_string(problem->op) + ": this kernel runs sparse_attention (1)";
  else
    reason = refusal(problem->u.sparse_attention);
  if (reason.empty()) reason = device::machine().refusal;
  say(why, why_size, reason);
  return reason.empty() ? 1 : 0;
}

int workspace_size(const mlacheck_problem* problem, std::uint64_t* bytes) {
  *bytes =
      workspace_bytes(make_plan(problem->u.sparse_attention, device::machine().multiprocessors));
  return 0;
}

std::string misaligned(const mlacheck_tensors& t) {
  const auto is_aligned = [](const void* data, std::uintptr_t alignment) {
    return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
  };
  if (!is_aligned(t.cache, 16)) return "cache: not 16-byte aligned";
  if (!is_aligned(t.q, 4)) return "q: not 4-byte aligned";
  if (!is_aligned(t.out, 8)) return "out: not 8-byte aligned";
  return "";
}

int run(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void* workspace,
        std::uint64_t workspace_bytes_given, void* stream_handle, char* why,
        std::size_t why_size) try {
  const mlacheck_sparse_attention_problem& p = problem->u.sparse_attention;
  const SparseAttentionPlan plan = make_plan(p, device::machine().multiprocessors);
  const std::uint64_t needed = workspace_bytes(plan);
  std::string reason = misaligned(*tensors);
  if (workspace_bytes_given < needed)
    reason = "workspace: " + std::to_string(workspace_bytes_given) + " bytes, needs " +
             std::to_string(needed);
  if (!reason.empty()) {
    say(why, why_size, reason);
    return 1;
  }
  device::Stream stream(stream_handle);
  declare_tensors(stream, p, *tensors, workspace, needed);
  const SparseAttentionArguments arguments = make_arguments(p, *tensors, plan, workspace);
  const auto launch = [&]<device::Element E>() {
    if (plan.group_heads == 16)
      launch_sparse_attention<E, 16>(stream, plan, arguments);
    else
      launch_sparse_attention<E, 64>(stream, plan, arguments);
  };
  if (p.q_dtype == MLACHECK_F16)
    launch.template operator()<device::Element::f16>();
  else
    launch.template operator()<device::Element::bf16>();
  return 0;
} catch (const std::exception& error) {
  say(why, why_size, error.what());
  return 1;
}

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
      .max_headroom = kMaxHeadroom,
  };
}

// A kernel's contract has one type of weights, that of q: two kernels, one for each.
template <mlacheck_dtype Element>
int supports_element(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  if (problem->op == MLACHECK_SPARSE_ATTENTION && problem->u.sparse_attention.q_dtype != Element) {
    say(why, why_size,
        "q_dtype " + std::to_string(problem->u.sparse_attention.q_dtype) + ": " +
            std::to_string(Element));
    return 0;
  }
  return supports(problem, why, why_size);
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
          .supports = supports_element<Element>,
          .workspace_size = workspace_size,
          .run = run,
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
