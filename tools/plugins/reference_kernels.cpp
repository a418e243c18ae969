// The CPU reference as a kernel library: the first plug-in, and the example of how to write one.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/operators/index_scores.h"
#include "reference/operators/kv_record_656.h"
#include "reference/operators/map_slots.h"
#include "reference/operators/sparse_attention.h"
#include "reference/operators/top_k.h"
#include "tools/plugins/problem_views.h"
#include "tools/plugins/reference_declaration.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::plugin;

bool is_float(std::int32_t dtype) { return dtype >= MLACHECK_F32 && dtype <= MLACHECK_BF16; }

// ---- sparse_attention ----

std::string refusal(const mlacheck_sparse_attention_problem& p) {
  if (!is_float(p.q_dtype)) return fmt::format("q_dtype {}: f32, f16, bf16", p.q_dtype);
  if (!is_float(p.out_dtype)) return fmt::format("out_dtype {}: f32, f16, bf16", p.out_dtype);
  if (p.kv.format == MLACHECK_CACHE_FP8_656)
    return p.qk_dim == kv_record_656::kDim
               ? ""
               : fmt::format("qk_dim {}: 576 with 656-byte records", p.qk_dim);
  if (p.kv.format != MLACHECK_CACHE_ROWS)
    return fmt::format("kv.format {}: rows or 656-byte records", p.kv.format);
  if (!is_float(p.kv.dtype)) return fmt::format("kv.dtype {}: f32, f16, bf16", p.kv.dtype);
  return "";
}

void run(const mlacheck_sparse_attention_problem& p, const mlacheck_tensors& t) {
  const AttentionView view(p, t);
  store(sparse_attention(view.problem), p, t);
}

// ---- index_scores ----

std::string refusal(const mlacheck_index_scores_problem& p) {
  if (!dtype_of(p.q_dtype)) return fmt::format("q_dtype {}: f32, f16, bf16, e4m3", p.q_dtype);
  if (!dtype_of(p.keys.dtype))
    return fmt::format("keys.dtype {}: f32, f16, bf16, e4m3", p.keys.dtype);
  if (p.keys.format != MLACHECK_CACHE_ROWS && p.keys.format != MLACHECK_CACHE_INDEX_PAGES)
    return fmt::format("keys.format {}: rows or index pages", p.keys.format);
  return "";
}

std::vector<float> scores_of(const mlacheck_index_scores_problem& p, const mlacheck_tensors& t) {
  return index_scores(view_of(p, t));
}

// With the appended flag.
struct ScoresProblem : mlacheck_index_scores_problem {
  bool unmasked;
};

void run(const ScoresProblem& p, const mlacheck_tensors& t) {
  const std::vector<float> scores = scores_of(p, t);
  const bool ranged = p.unmasked && p.has_key_range != 0;
  for (std::int64_t row = 0; row < p.tokens; ++row) {
    const std::int64_t begin = ranged ? t.range_begin[row] : 0;
    const std::int64_t end = ranged ? t.range_end[row] : p.key_count;
    for (std::int64_t s = begin; s < end; ++s)
      t.scores_out[row * p.score_stride + s] =
          scores[static_cast<std::size_t>(row * p.key_count + s)];
  }
}

// ---- top_k, index_select, map_slots ----

std::string refusal(const mlacheck_top_k_problem&) { return ""; }

void run(const mlacheck_top_k_problem& p, const mlacheck_tensors& t) {
  for (std::int64_t row = 0; row < p.rows; ++row)
    top_k(t.scores_in + row * p.score_stride, t.range_begin != nullptr ? t.range_begin[row] : 0,
          t.range_end != nullptr ? t.range_end[row] : p.columns, p.k, t.selected + row * p.k);
}

std::string refusal(const mlacheck_index_select_problem& p) { return refusal(p.scores); }

void run(const mlacheck_index_select_problem& p, const mlacheck_tensors& t) {
  const mlacheck_index_scores_problem& s = p.scores;
  const std::vector<float> scores = scores_of(s, t);
  for (std::int64_t row = 0; row < s.tokens; ++row) {
    const std::span<std::int32_t> selected(t.selected + row * p.k, static_cast<std::size_t>(p.k));
    top_k(scores.data() + row * s.key_count, t.range_begin != nullptr ? t.range_begin[row] : 0,
          t.range_end != nullptr ? t.range_end[row] : s.key_count, p.k, selected.data());
    if (p.to_slots == 0 || t.block_table == nullptr) continue;
    const std::int64_t request = t.request != nullptr ? t.request[row] : 0;
    map_slots(selected,
              {t.block_table + request * s.block_table_stride,
               static_cast<std::size_t>(s.block_table_stride)},
              s.keys.page_size, selected);
  }
}

std::string refusal(const mlacheck_map_slots_problem& p) {
  return p.block_size >= 1 ? "" : fmt::format("block_size {}: at least 1", p.block_size);
}

void run(const mlacheck_map_slots_problem& p, const mlacheck_tensors& t) {
  map_slots({t.positions, static_cast<std::size_t>(p.count)},
            {t.block_table, static_cast<std::size_t>(p.blocks)}, p.block_size,
            {t.slots, static_cast<std::size_t>(p.count)});
}

// ---- The C functions ----

// Calls f with the problem of the operator; false when the problem is of another one.
template <class F>
bool visit(const mlacheck_problem* problem, F f) {
  switch (problem->op) {
    case MLACHECK_SPARSE_ATTENTION:
      f(problem->u.sparse_attention);
      return true;
    case MLACHECK_INDEX_SCORES:
      f(ScoresProblem{problem->u.index_scores, MLACHECK_PROBLEM_HAS(problem, unmasked_scores) &&
                                                   problem->unmasked_scores != 0});
      return true;
    case MLACHECK_TOP_K:
      f(problem->u.top_k);
      return true;
    case MLACHECK_INDEX_SELECT:
      f(problem->u.index_select);
      return true;
    case MLACHECK_MAP_SLOTS:
      f(problem->u.map_slots);
      return true;
    default:
      return false;
  }
}

template <int Op>
int supports(const mlacheck_problem* problem, char* why, std::size_t why_size) {
  std::string reason;
  if (problem->op != Op || !visit(problem, [&](const auto& p) { reason = refusal(p); }))
    reason = fmt::format("op {}: this kernel runs op {}", problem->op, Op);
  say(why, why_size, reason);
  return reason.empty() ? 1 : 0;
}

int workspace_size(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 0;
  return 0;
}

int run_kernel(const mlacheck_problem* problem, const mlacheck_tensors* tensors, void*,
               std::uint64_t, void*, char* why, std::size_t why_size) {
  try {
    return visit(problem, [&](const auto& p) { run(p, *tensors); }) ? 0 : 1;
  } catch (const std::exception& error) {
    say(why, why_size, error.what());
    return 1;
  }
}

template <int Op>
constexpr mlacheck_kernel reference(const char* name, const char* description) {
  return {.struct_size = sizeof(mlacheck_kernel),
          .op = Op,
          .name = name,
          .description = description,
          .memory = MLACHECK_HOST,
          .reserved = 0,
          .conventions = kReferenceConventions,
          .contract = kReferenceContract,
          .supports = supports<Op>,
          .workspace_size = workspace_size,
          .run = run_kernel,
          .relu_drops_nan = 0,
          .reserved_2 = 0};
}

constexpr mlacheck_kernel kSparseAttention = reference<MLACHECK_SPARSE_ATTENTION>(
    "sparse_attention", "fp32, bit-explicit; any sizes, rows of f32, f16, bf16");
constexpr mlacheck_kernel kIndexScores = reference<MLACHECK_INDEX_SCORES>(
    "index_scores", "fp32, bit-explicit; rows of f32, f16, bf16, e4m3, or index pages");
constexpr mlacheck_kernel kTopK =
    reference<MLACHECK_TOP_K>("top_k", "exact, ascending, ties to the lowest index");
constexpr mlacheck_kernel kIndexSelect = reference<MLACHECK_INDEX_SELECT>(
    "index_select", "index_scores, then top_k, then slots if asked");
constexpr mlacheck_kernel kMapSlots =
    reference<MLACHECK_MAP_SLOTS>("map_slots", "logical positions to slots");

constexpr const mlacheck_kernel* kKernels[] = {&kSparseAttention, &kIndexScores, &kTopK,
                                               &kIndexSelect, &kMapSlots};

constexpr mlacheck_library kLibrary = {.struct_size = sizeof(mlacheck_library),
                                       .abi_version = MLACHECK_ABI_VERSION,
                                       .name = "mlacheck reference",
                                       .version = MLACHECK_VERSION,
                                       .kernels = kKernels,
                                       .kernel_count = std::size(kKernels),
                                       .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(
    std::uint32_t abi_version) {
  return abi_version == MLACHECK_ABI_VERSION ? &kLibrary : nullptr;
}
