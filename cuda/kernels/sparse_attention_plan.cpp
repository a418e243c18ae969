#include "cuda/kernels/sparse_attention_plan.h"

#include <algorithm>
#include <cmath>

#include "cuda/kernels/plan_support.h"
#include "cuda/kernels/sparse_attention_combine.h"

namespace mlacheck::kernels {
namespace {

constexpr std::int64_t kMostEntries = 1 << 30;  // and a chunk, which is less: int32

// Blocks that the splits are to fill: about the blocks of each kernel that run together on an
// H200 (132 SMs) and on SM120 (188 and 170). Constants, so that the bits are the same on both.
constexpr std::int64_t kBlocks64 = 132;
constexpr std::int64_t kBlocks16 = 264;
// Shorter chunks spend more on starting and folding than they gain.
constexpr std::int32_t kLeastChunk64 = 256;
constexpr std::int32_t kLeastChunk16 = 128;
// Of the batch-invariant mode up to 65,536 entries, longer beyond: T = 1 wants it shorter, T = 4096
// longer.
constexpr std::int32_t kInvariantChunk = 1024;

constexpr std::int32_t round_up_to_tiles(std::int64_t entries) {
  return static_cast<std::int32_t>(std::max<std::int64_t>(divide_up(entries, kTileRows), 1) *
                                   kTileRows);
}

// Rounded once.
float scale_log2(float sm_scale) {
  constexpr double kLog2EExact = 0x1.71547652b82fep+0;
  return static_cast<float>(static_cast<double>(sm_scale) * kLog2EExact);
}

std::string cache_refusal(const mlacheck_cache& kv) {
  if (kv.format != MLACHECK_CACHE_ROWS)
    return says("kv.format", kv.format, "rows of one element type");
  if (kv.slots < 0 || kv.slots > kInt32Max) return says("kv.slots", kv.slots, "0 ... 2^31 - 1");
  if (kv.page_size < 1) return says("kv.page_size", kv.page_size, "at least 1");
  if (kv.page_stride % 16 != 0) return says("kv.page_stride", kv.page_stride, "a multiple of 16");
  if (kv.row_stride % 16 != 0) return says("kv.row_stride", kv.row_stride, "a multiple of 16");
  return "";
}

// Takes consecutive arrays from the workspace; from null, only counts.
class Workspace {
 public:
  explicit Workspace(void* start) : start_(static_cast<std::byte*>(start)) {}
  float* take(std::int64_t floats) {
    float* taken = start_ == nullptr ? nullptr : reinterpret_cast<float*>(start_ + bytes_);
    bytes_ += static_cast<std::uint64_t>(divide_up(floats, 64)) * 64 * sizeof(float);
    return taken;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* start_;
  std::uint64_t bytes_ = 0;
};

std::uint64_t place_partials(const SparseAttentionPlan& plan, void* workspace,
                             SparseAttentionArguments& a) {
  Workspace space(workspace);
  if (plan.split) {
    const std::int64_t heads = std::int64_t{plan.items} * plan.group_heads;
    a.partial_out = space.take(heads * kVDim);
    a.partial_max = space.take(heads);
    a.partial_sum = space.take(heads);
    a.partial_largest = space.take(heads);
  } else if (plan.folds) {
    a.partial_out = space.take(std::int64_t{plan.blocks} * plan.group_heads * kVDim);
  }
  return space.bytes();
}

}  // namespace

std::string refusal(const mlacheck_sparse_attention_problem& p) {
  if (p.qk_dim != kQkDim) return says("qk_dim", p.qk_dim, "576");
  if (p.v_dim != kVDim) return says("v_dim", p.v_dim, "512");
  if (p.q_dtype != MLACHECK_F16 && p.q_dtype != MLACHECK_BF16)
    return says("q_dtype", p.q_dtype, "f16 (2) or bf16 (3)");
  if (p.kv.dtype != p.q_dtype) return says("kv.dtype", p.kv.dtype, "that of q");
  if (p.out_dtype != p.q_dtype && p.out_dtype != MLACHECK_F32)
    return says("out_dtype", p.out_dtype, "that of q, or f32 (1)");
  if (p.heads < 1 || p.heads > kInt32Max) return says("heads", p.heads, "1 ... 2^31 - 1");
  if (p.topk < 0 || p.topk > kMostEntries) return says("topk", p.topk, "0 ... 2^30");
  if (p.tokens < 0 || p.tokens > kInt32Max) return says("tokens", p.tokens, "0 ... 2^31 - 1");
  if (p.q_token_stride % 2 != 0) return says("q_token_stride", p.q_token_stride, "even");
  if (p.q_head_stride % 2 != 0) return says("q_head_stride", p.q_head_stride, "even");
  if (!std::isfinite(scale_log2(p.sm_scale)))
    return "sm_scale " + std::to_string(p.sm_scale) + ": finite, times log2(e) too";
  if (p.tokens > 0 && divide_up(p.heads, 16) > kInt32Max / p.tokens)
    return says("tokens", p.tokens, "tokens x groups of 16 heads below 2^31");
  return cache_refusal(p.kv);
}

SparseAttentionPlan make_plan(const mlacheck_sparse_attention_problem& p,
                              unsigned multiprocessors) {
  SparseAttentionPlan plan;
  // 16 heads a block for few heads, and where 64 would leave most of the chip idle.
  const std::int64_t rows16 = p.tokens * divide_up(p.heads, 16),
                     rows64 = p.tokens * divide_up(p.heads, 64);
  const std::int64_t most_items16 = rows16 * divide_up(p.topk, kLeastChunk16);
  plan.group_heads = p.heads <= 16 || most_items16 <= kBlocks16 ? 16 : 64;
  const bool small = plan.group_heads == 16;
  const std::int64_t rows = small ? rows16 : rows64;
  const std::int64_t blocks = small ? kBlocks16 : kBlocks64;
  const std::int64_t least = small ? kLeastChunk16 : kLeastChunk64;
  plan.head_groups = static_cast<std::uint32_t>(divide_up(p.heads, plan.group_heads));
  if (rows == 0) return plan;

  const std::int64_t most_chunks = SparseAttentionCombine::kMaxChunks;
  if (p.batch_invariant != 0) {
    plan.chunk = std::max(kInvariantChunk, round_up_to_tiles(divide_up(p.topk, most_chunks)));
  } else {
    const std::int64_t splits =
        std::clamp(std::min(blocks / rows, divide_up(p.topk, least)), std::int64_t{1}, most_chunks);
    plan.chunk = round_up_to_tiles(divide_up(p.topk, splits));
  }
  const std::int64_t chunks = std::max<std::int64_t>(divide_up(p.topk, plan.chunk), 1);
  plan.split = chunks > 1 && rows < blocks;
  plan.folds = chunks > 1 && !plan.split;
  plan.chunks = static_cast<std::uint32_t>(plan.split ? chunks : 1);
  plan.items = static_cast<std::uint32_t>(rows) * plan.chunks;
  plan.blocks = std::min(plan.items, multiprocessors * (small ? 2u : 1u));
  // combine: two blocks an SM; more would each compute the weights again.
  const std::int64_t combined = rows * (plan.group_heads / SparseAttentionCombine::kHeads);
  plan.combine_blocks = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(2 * multiprocessors / combined, 1, SparseAttentionCombine::kParts));
  return plan;
}

std::uint64_t workspace_bytes(const SparseAttentionPlan& plan) {
  SparseAttentionArguments unused;
  return place_partials(plan, nullptr, unused);
}

SparseAttentionArguments make_arguments(const mlacheck_sparse_attention_problem& p,
                                        const mlacheck_tensors& t, const SparseAttentionPlan& plan,
                                        void* workspace) {
  SparseAttentionArguments a = {};
  a.q = static_cast<const std::uint16_t*>(t.q);
  a.q_token_stride = p.q_token_stride;
  a.q_head_stride = p.q_head_stride;
  a.kv = static_cast<const std::byte*>(t.cache);
  a.page_stride = p.kv.page_stride;
  a.row_stride = p.kv.row_stride;
  a.page_size = device::Divisor(
      static_cast<std::uint32_t>(std::min<std::int64_t>(p.kv.page_size, kInt32Max)));
  a.slots = static_cast<std::uint32_t>(p.kv.slots);
  a.indices = t.indices;
  a.index_stride = p.index_stride;
  a.topk_length = t.topk_length;
  a.attn_sink = t.attn_sink;
  a.scale_log2 = scale_log2(p.sm_scale);
  a.out = t.out;
  a.lse = t.lse;
  a.max_logit = p.wants_max_logit != 0 ? t.max_logit : nullptr;
  a.out_f32 = p.out_dtype == MLACHECK_F32;
  a.heads = static_cast<std::int32_t>(p.heads);
  a.topk = static_cast<std::int32_t>(p.topk);
  a.chunk = plan.chunk;
  a.by_chunk = device::Divisor(static_cast<std::uint32_t>(plan.chunk));
  a.head_groups = device::Divisor(plan.head_groups);
  a.chunks = device::Divisor(plan.chunks);
  a.items = plan.items;
  a.split = plan.split;
  a.combine_blocks = plan.combine_blocks;
  place_partials(plan, workspace, a);
  return a;
}

}  // namespace mlacheck::kernels
