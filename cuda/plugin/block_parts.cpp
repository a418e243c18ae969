#include "cuda/plugin/block_parts.h"

#include <algorithm>

#include "cuda/plugin/kernel_call.h"

namespace mlacheck {

namespace {

const mlacheck_cache* cache_of(const mlacheck_problem& problem) {
  if (problem.op == MLACHECK_SPARSE_ATTENTION) return &problem.u.sparse_attention.kv;
  if (problem.op == MLACHECK_INDEX_SCORES) return &problem.u.index_scores.keys;
  if (problem.op == MLACHECK_INDEX_SELECT) return &problem.u.index_select.scores.keys;
  return nullptr;
}

std::uint64_t page_bytes(const mlacheck_cache& cache) {
  const std::int64_t scale = cache.format == MLACHECK_CACHE_INDEX_PAGES ? 4 : 0;
  return static_cast<std::uint64_t>(cache.page_size * (cache.row_stride + scale));
}

}  // namespace

std::vector<BlockPart> cache_parts(const mlacheck_problem& problem, std::uint64_t bytes) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 20;
  const mlacheck_cache* cache = cache_of(problem);
  if (cache == nullptr) return {{0, bytes}};
  const auto stride = static_cast<std::uint64_t>(cache->page_stride);
  const std::uint64_t page = page_bytes(*cache);
  if (stride <= page + kFar) return {{0, bytes}};
  std::vector<BlockPart> parts;
  for (std::uint64_t begin = 0; begin < bytes; begin += stride)
    parts.push_back({begin, std::min(begin + page, bytes)});
  return parts;
}

std::vector<BlockPart> block_parts(std::span<const CallHeader* const> stages) {
  const std::uint64_t bytes = stages[0]->bytes;
  std::vector<BlockPart> parts = {{0, bytes}};
  for (const CallHeader* stage : stages) {
    const CallHeader::Piece& cache = stage->pieces[static_cast<std::size_t>(CallTensor::cache)];
    if (cache.offset == 0) continue;
    const std::vector<BlockPart> pages = cache_parts(stage->problem, cache.bytes);
    const std::int32_t copies = cache.stride == 0 ? 1 : stage->calls;
    for (std::int32_t copy = 0; copy < copies; ++copy)
      for (std::size_t i = 0; i + 1 < pages.size(); ++i) {
        const std::uint64_t start = cache.offset + static_cast<std::uint64_t>(copy) * cache.stride;
        parts.back().end = start + pages[i].end;
        parts.push_back({start + pages[i + 1].begin, bytes});
      }
  }
  return parts;
}

}  // namespace mlacheck
