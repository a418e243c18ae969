#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/recipe.h"

namespace mlacheck {

// Recipes in a file: one a line, '#' begins a comment. Throws std::invalid_argument with file and
// line where a line is no recipe, std::system_error where there is no file, std::runtime_error
// where it is no regular one.
std::vector<Recipe> read_recipes(const std::filesystem::path& path);

// The same of a batch, whose name says what it holds:
//   shapes_<operator>_<name>.txt   sizes and types of that operator alone, every other key as it is
//   set_<operator>_<name>.txt      recipes of that operator around a theme
//   test_<name>_smoke.txt, test_<name>_ci.txt     what a test runs, of any operator
// Throws std::invalid_argument too where name and recipes do not agree.
std::vector<Recipe> read_batch(const std::filesystem::path& path);

// The smallest recipes that ever failed: what every later campaign tries first.
class RegressionFile {
 public:
  // No file is an empty one.
  explicit RegressionFile(std::filesystem::path path);

  const std::vector<Recipe>& recipes() const { return recipes_; }
  // Appends a line, "RECIPE  # comment", unless the file has the recipe. Several campaigns may
  // share a file: it is locked meanwhile, and a line is written whole. Throws std::system_error.
  void add(const Recipe& recipe, std::string_view comment);

 private:
  std::filesystem::path path_;
  std::vector<Recipe> recipes_;
};

}  // namespace mlacheck
