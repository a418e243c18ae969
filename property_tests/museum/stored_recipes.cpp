#include "property_tests/museum/stored_recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tools/judgements.h"
#include "tools/stopwatch.h"

namespace mlacheck::museum {

namespace {

// A call that does not come back is what is looked for where the check is the call; elsewhere it
// has as long as anything may take.
constexpr int kSecondsOfHang = 1;
constexpr int kSeconds = 60;

// Up to the next ": ", which is taken off.
std::string take_word(std::string_view& line) {
  const std::size_t end = line.find(": ");
  if (end == std::string_view::npos || end == 0)
    throw std::invalid_argument(fmt::format("'{}', expected 'fault: check: recipe'", line));
  std::string word(line.substr(0, end));
  line.remove_prefix(end + 2);
  return word;
}

// The worst of some results; of equal ones, that of the check.
CheckResult worst_of(const std::vector<CheckResult>& results, const std::string& check) {
  return *std::ranges::max_element(results, {}, [&](const CheckResult& result) {
    return std::pair(result.status, check_of(result) == check);
  });
}

}  // namespace

std::vector<StoredRecipe> parse_stored_recipes(std::string_view text, std::string_view file) {
  std::vector<StoredRecipe> recipes;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    try {
      StoredRecipe& stored = recipes.emplace_back();
      stored.fault = take_word(line);
      stored.check = take_word(line);
      stored.recipe = parse_recipe(line);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  return recipes;
}

std::vector<StoredRecipe> read_stored_recipes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw std::system_error(errno, std::generic_category(), file.string());
  return parse_stored_recipes(text, file.string());
}

std::vector<CheckResult> replay(const std::vector<StoredRecipe>& recipes,
                                const std::function<KernelLibrary(int seconds)>& load) {
  const Stopwatch watch;
  Museum patient([&] { return load(kSeconds); });
  Museum hasty([&] { return load(kSecondsOfHang); });
  std::vector<CheckResult> results;
  std::int64_t caught = 0;
  for (const StoredRecipe& stored : recipes) {
    Museum& museum = stored.check == "call" ? hasty : patient;
    const std::string repro = repro_of(stored.recipe, &museum.library());
    const std::vector<CheckResult> found = museum.check(stored.fault, stored.recipe);
    if (found.empty()) {
      results.push_back({fmt::format("museum: {}", stored.fault), Status::fail,
                         "the recipe is not for this kernel", repro, 0});
      continue;
    }
    const CheckResult worst = worst_of(found, stored.check);
    if (check_of(worst) == stored.check && is_wrong(worst.status)) {
      ++caught;
      continue;
    }
    results.push_back({fmt::format("museum: {}", stored.fault), Status::fail,
                       fmt::format("expected {} to give it away, got {} by {}\n{}", stored.check,
                                   name_of(worst.status), check_of(worst), worst.detail),
                       repro, 0});
  }
  for (const std::string& name : patient.names())
    if (!name.starts_with(kHonest) &&
        std::ranges::find(recipes, name, &StoredRecipe::fault) == recipes.end())
      results.push_back({fmt::format("museum: {}", name), Status::fail, "has no stored recipe",
                         fmt::format("mlacheck museum --fault {}", name), 0});
  results.push_back(
      {"museum", results.empty() ? Status::pass : Status::fail,
       fmt::format("{} of {} planted faults caught", caught, caught + std::ssize(results)),
       "mlacheck museum", watch.seconds()});
  return results;
}

}  // namespace mlacheck::museum
