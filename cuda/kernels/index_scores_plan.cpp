#include "cuda/kernels/index_scores_plan.h"

#include <algorithm>

#include "cuda/kernels/plan_support.h"

namespace mlacheck::kernels {
namespace {

std::string keys_refusal(const mlacheck_index_scores_problem& p) {
  const mlacheck_cache& keys = p.keys;
  if (keys.format != MLACHECK_CACHE_ROWS)
    return says("keys.format", keys.format, "rows of one element type (1)");
  if (keys.dtype != p.q_dtype) return says("keys.dtype", keys.dtype, "that of q");
  if (keys.slots < 0) return says("keys.slots", keys.slots, "at least 0");
  if (keys.page_size < 1 || keys.page_size > kInt32Max)
    return says("keys.page_size", keys.page_size, "1 ... 2^31 - 1");
  if (keys.page_stride % 16 != 0)
    return says("keys.page_stride", keys.page_stride, "a multiple of 16");
  if (keys.row_stride % 16 != 0)
    return says("keys.row_stride", keys.row_stride, "a multiple of 16");
  if (p.has_block_table != 0 && p.block_table_stride < divide_up(p.key_count, keys.page_size))
    return says("block_table_stride", p.block_table_stride, "a page for every key of key_count");
  return "";
}

}  // namespace

std::string refusal(const mlacheck_index_scores_problem& p) {
  if (p.dim != kIndexDim) return says("dim", p.dim, "128");
  if (p.q_dtype != MLACHECK_F16 && p.q_dtype != MLACHECK_BF16)
    return says("q_dtype", p.q_dtype, "f16 (2) or bf16 (3)");
  if (p.heads < 1 || p.heads > kInt32Max / 2) return says("heads", p.heads, "1 ... 2^30 - 1");
  if (p.tokens < 0 || p.tokens > kInt32Max) return says("tokens", p.tokens, "0 ... 2^31 - 1");
  if (p.key_count < 0 || p.key_count > kInt32Max)
    return says("key_count", p.key_count, "0 ... 2^31 - 1");
  if (p.score_stride < p.key_count)
    return says("score_stride", p.score_stride, "at least key_count");
  if (p.q_token_stride % 8 != 0) return says("q_token_stride", p.q_token_stride, "a multiple of 8");
  if (p.q_head_stride % 8 != 0) return says("q_head_stride", p.q_head_stride, "a multiple of 8");
  // As many items as the largest plan makes.
  if (divide_up(p.key_count, kMostIndexWarps * kKeysOfWarp) * divide_up(p.tokens, kMostItemRows) >
      kInt32Max)
    return says("tokens", p.tokens, "tokens / 32 x key_count / 512 below 2^31");
  return keys_refusal(p);
}

IndexScoresPlan make_plan(const mlacheck_index_scores_problem& p, unsigned multiprocessors) {
  IndexScoresPlan plan;
  if (p.tokens == 0 || p.key_count == 0) return plan;
  // Many rows share a load of the keys; fewer where the chip would be left idle. Fewer warps a
  // block where the last rows and keys do not fill it either.
  const std::int64_t blocks = multiprocessors;
  const auto items = [&](std::int64_t rows, std::int64_t warps) {
    return divide_up(p.tokens, rows) * divide_up(p.key_count, warps * kKeysOfWarp);
  };
  std::int64_t rows = kMostItemRows, warps = kMostIndexWarps;
  while (rows > 1 && items(rows, warps) < 4 * blocks) rows /= 2;
  while (warps > 1 && items(rows, warps) <= blocks / 2) warps /= 2;
  plan.ahead = rows == 1;
  if (plan.ahead && warps > kMostAheadWarps) warps = kMostAheadWarps;
  plan.item_rows = static_cast<std::uint32_t>(rows);
  plan.warps = static_cast<std::uint32_t>(warps);
  plan.key_blocks = static_cast<std::uint32_t>(divide_up(p.key_count, warps * kKeysOfWarp));
  plan.items = static_cast<std::uint32_t>(items(rows, warps));
  plan.blocks = static_cast<std::uint32_t>(std::min<std::int64_t>(plan.items, blocks));
  return plan;
}

IndexScoresArguments make_arguments(const mlacheck_index_scores_problem& p,
                                    const mlacheck_tensors& t, const IndexScoresPlan& plan,
                                    bool masks) {
  IndexScoresArguments a = {};
  a.q = static_cast<const std::uint16_t*>(t.q);
  a.q_token_stride = p.q_token_stride;
  a.q_head_stride = p.q_head_stride;
  a.piece_heads = p.q_head_stride == kIndexDim ? 8 : 1;
  a.weights = t.weights;
  a.keys = static_cast<const std::byte*>(t.cache);
  a.page_stride = p.keys.page_stride;
  a.row_stride = p.keys.row_stride;
  // Pages that follow each other are one.
  const bool one_page =
      p.has_block_table == 0 && p.keys.page_stride == p.keys.page_size * p.keys.row_stride;
  a.page_size =
      device::Divisor(static_cast<std::uint32_t>(one_page ? kInt32Max : p.keys.page_size));
  a.slots = p.keys.slots;
  a.block_table = p.has_block_table != 0 ? t.block_table : nullptr;
  a.block_table_stride = p.block_table_stride;
  a.request = p.has_request != 0 ? t.request : nullptr;
  a.key_begin = p.has_key_range != 0 ? t.range_begin : nullptr;
  a.key_end = p.has_key_range != 0 ? t.range_end : nullptr;
  a.scores = t.scores_out;
  a.score_stride = p.score_stride;
  a.masks = masks;
  a.tokens = static_cast<std::uint32_t>(p.tokens);
  a.heads = static_cast<std::int32_t>(p.heads);
  a.key_count = static_cast<std::uint32_t>(p.key_count);
  a.item_rows = plan.item_rows;
  a.warps = plan.warps;
  a.key_blocks = device::Divisor(plan.key_blocks);
  a.items = plan.items;
  return a;
}

}  // namespace mlacheck::kernels
