#pragma once

#include <cstdint>

#include "fixtures/recipe.h"

namespace mlacheck {

// How the rows of a case are shared out among timed calls: call i has rows
// [i * tokens, (i + 1) * tokens). Where the cache is too small for them to read different parts of
// it, each has a copy of it.
struct TimedCalls {
  std::int64_t tokens = 1;
  std::int32_t calls = 1;
  bool own_caches = false;
  bool batch_invariant = false;
};

// As many calls of the recipe with so many tokens as read twice the L2 cache between them, at most
// 64, so that none finds there what it reads.
TimedCalls timed_calls(const Recipe& recipe, std::int64_t tokens, std::int64_t l2_bytes,
                       bool batch_invariant);

}  // namespace mlacheck
