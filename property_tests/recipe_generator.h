#pragma once

#include <array>
#include <cstdint>

#include "cuda/include/mlacheck_kernel.h"
#include "fixtures/recipe.h"
#include "property_tests/narrowing.h"

namespace mlacheck {

using Operator = mlacheck_operator;
inline constexpr std::array<Operator, 5> kOperators = {MLACHECK_SPARSE_ATTENTION,
                                                       MLACHECK_INDEX_SCORES, MLACHECK_INDEX_SELECT,
                                                       MLACHECK_TOP_K, MLACHECK_MAP_SLOTS};

// A case for kernels of the operator: recipe `number` of the series `seed`. The same on every
// machine and build; always valid. number < 2^48.
//
// It aims: sizes from sets of boundaries (tiles, pages, k, limits of grids) as well as ranges,
// every word of every key, by the weights in *_generator.cpp. Reference and oracle take about 5 ms
// a case: most are small, one in hundreds has many rows or keys.
//
// Each key is drawn from a stream of its own (fixtures/counter_random.h), so that a new key or
// weight leaves what the others draw as it is. RapidCheck's generators are as portable, but draw in
// the order in which the code asks, and RapidCheck is a dependency of the tests alone: there it is
// used.
//
// With `narrowing`, sizes and types are those that a kernel supports, nearly always: the same for
// it on every machine.
Recipe draw_recipe(Operator op, std::uint64_t seed, std::uint64_t number,
                   Narrowing* narrowing = nullptr);

}  // namespace mlacheck
