#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/recipe.h"
#include "property_tests/museum/search.h"
#include "tools/report.h"

namespace mlacheck::museum {

// A recipe that gives a fault away, and by which check.
struct StoredRecipe {
  std::string fault;
  std::string check;
  Recipe recipe;
};

// Lines "fault: check: recipe"; empty ones and those that begin with # are comments. Throws
// std::invalid_argument with the file's name and the line.
std::vector<StoredRecipe> parse_stored_recipes(std::string_view text, std::string_view file);
std::vector<StoredRecipe> read_stored_recipes(const std::filesystem::path& file);

// Puts every recipe to its fault: FAIL for each fault that its check does not see, and for each
// that has no recipe; and one line for all. load(seconds): the library, whose calls have so long.
std::vector<CheckResult> replay(const std::vector<StoredRecipe>& recipes,
                                const std::function<KernelLibrary(int seconds)>& load);

}  // namespace mlacheck::museum
