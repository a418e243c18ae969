#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fixtures/recipe.h"

namespace mlacheck::detail {

// The steps of shrink(): recipes with one key made simpler, and what hangs on it. They may be
// invalid.

// Keys that count something.
std::vector<std::string_view> size_keys(const Recipe& recipe);
std::int64_t size_of(const Recipe& recipe, std::string_view key);
Recipe with_size(const Recipe& recipe, std::string_view key, std::int64_t size);
// Smaller sizes to try, ascending: the least that is allowed, powers of two and page boundaries,
// with one more of each, and one less than the recipe's.
std::vector<std::int64_t> smaller_sizes(const Recipe& recipe, std::string_view key);

// With one flag at its default.
std::vector<Recipe> plainer(const Recipe& recipe);

// With values of a simpler family, kv_power 0, seed 1.
std::vector<Recipe> simpler_values(const Recipe& recipe);

// Places of a row that can be left out.
std::vector<std::int64_t> places(const Recipe& recipe);
Recipe with_places(const Recipe& recipe, const std::vector<std::int64_t>& kept);

}  // namespace mlacheck::detail
