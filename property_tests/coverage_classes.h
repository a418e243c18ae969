#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fixtures/fills/error_class.h"
#include "fixtures/recipe.h"
#include "property_tests/recipe_generator.h"

namespace mlacheck {

// What recipes of one kind are told apart by: each word of a key, or ranges between the boundaries
// at which kernels go wrong.
struct CoverageKey {
  std::string key;                   // of the recipe, or "n - k", "k mod 64", "n mod page"
  std::vector<std::string> classes;  // all that there are
};

// Keys in a fixed order, the same for every recipe of a kind.
std::vector<CoverageKey> coverage_keys(const Recipe& kind);
// For each of those keys the number of the recipe's class.
std::vector<std::size_t> coverage_classes(const Recipe& recipe);

// The errors that kernels of the operator can make, and cases of it can show.
ErrorClasses errors_of(Operator op);

}  // namespace mlacheck
