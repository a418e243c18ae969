#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck {

struct CallHeader;

// Bytes [begin, end).
struct BlockPart {
  std::uint64_t begin;
  std::uint64_t end;
};

// What a cache of `bytes` bytes holds: all of them. But where its pages lie more than 1 MiB apart,
// as they do to reach addresses past 2^32 bytes, each page alone: what lies between is no memory,
// and is not to be touched.
std::vector<BlockPart> cache_parts(const mlacheck_problem& problem, std::uint64_t bytes);

// What the block of a call of these stages holds: all but what lies between the pages of its
// caches.
std::vector<BlockPart> block_parts(std::span<const CallHeader* const> stages);

}  // namespace mlacheck
