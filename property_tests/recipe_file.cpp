#include "property_tests/recipe_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "fixtures/recipe_fields.h"
#include "fixtures/regular_file.h"

namespace mlacheck {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

// A file, locked against other campaigns until it is closed.
class LockedFile {
 public:
  LockedFile(const std::filesystem::path& path, int flags, int lock)
      : path_(path), descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0 || flock(descriptor_, lock) != 0) fail(path_);
  }
  ~LockedFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  std::string read_all() const {
    std::string text;
    char buffer[1 << 14];
    while (true) {
      const ssize_t n = read(descriptor_, buffer, sizeof(buffer));
      if (n < 0 && errno != EINTR) fail(path_);
      if (n == 0) return text;
      if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
    }
  }
  // At the end, in one piece.
  void append(const std::string& text) const {
    const ssize_t n = write(descriptor_, text.data(), text.size());
    if (n != static_cast<ssize_t>(text.size()) || fsync(descriptor_) != 0) fail(path_);
  }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

std::vector<Recipe> recipes_of(std::string_view text, const std::filesystem::path& path) {
  std::vector<Recipe> recipes;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    try {
      recipes.push_back(parse_recipe(line));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
  }
  return recipes;
}

std::string_view op_of(const Recipe& recipe) {
  return std::visit([](const auto& r) { return r.kOp; }, recipe);
}

// The first key that is neither size nor type and not at its default; empty where there is none.
std::string key_beside_the_shape(const Recipe& recipe) {
  std::string found;
  std::visit(
      [&]<class R>(const R& r) {
        R shape = r;
        const R defaults;
        detail::visit_fields(shape, [&]<class T, class D>(std::string_view key, T& value,
                                                          const D& domain, std::string_view) {
          constexpr bool is_shape = std::same_as<T, std::int64_t> || std::same_as<T, DType> ||
                                    std::same_as<T, KvFormat> || std::same_as<T, OutputType>;
          if (is_shape || !found.empty()) return;
          detail::visit_fields(defaults, [&]<class U>(std::string_view name, const U& usual,
                                                      const auto&, std::string_view) {
            if constexpr (std::same_as<T, U>)
              if (name == key && !(value == usual))
                found = fmt::format("{}={}", key, domain.print(value));
          });
        });
      },
      recipe);
  return found;
}

}  // namespace

std::vector<Recipe> read_recipes(const std::filesystem::path& path) {
  require_no_special_file(path);
  return recipes_of(LockedFile(path, O_RDONLY, LOCK_SH).read_all(), path);
}

std::vector<Recipe> read_batch(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const bool is_test =
      name.starts_with("test_") && (name.ends_with("_smoke.txt") || name.ends_with("_ci.txt"));
  const bool is_shapes = name.starts_with("shapes_");
  if (!is_test && !((is_shapes || name.starts_with("set_")) && name.ends_with(".txt")))
    throw std::invalid_argument(
        fmt::format("{}: a batch is named shapes_<operator>_<name>.txt, set_<operator>_<name>.txt, "
                    "test_<name>_smoke.txt or test_<name>_ci.txt",
                    path.string()));
  std::vector<Recipe> recipes = read_recipes(path);
  if (recipes.empty())
    throw std::invalid_argument(fmt::format("{}: there is no recipe in it", path.string()));
  for (const Recipe& recipe : recipes) {
    if (is_test) break;
    const std::string prefix = fmt::format("{}_{}_", is_shapes ? "shapes" : "set", op_of(recipe));
    if (!name.starts_with(prefix))
      throw std::invalid_argument(fmt::format("{}: holds '{}', which belongs in {}<name>.txt",
                                              path.string(), minimal(recipe), prefix));
    const std::string other = is_shapes ? key_beside_the_shape(recipe) : "";
    if (!other.empty())
      throw std::invalid_argument(
          fmt::format("{}: {} is neither size nor type: it belongs in set_{}_<name>.txt",
                      path.string(), other, op_of(recipe)));
  }
  return recipes;
}

RegressionFile::RegressionFile(std::filesystem::path path) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) recipes_ = read_recipes(path_);
}

void RegressionFile::add(const Recipe& recipe, std::string_view comment) {
  require_no_special_file(path_);
  const LockedFile file(path_, O_RDWR | O_CREAT | O_APPEND, LOCK_EX);
  const std::string text = file.read_all();
  recipes_ = recipes_of(text, path_);
  if (std::ranges::find(recipes_, recipe) != recipes_.end()) return;
  std::string note(comment);
  std::ranges::replace(note, '\n', ' ');
  file.append(fmt::format("{}{}  # {}\n", text.empty() || text.ends_with('\n') ? "" : "\n",
                          minimal(recipe), note));
  recipes_.push_back(recipe);
}

}  // namespace mlacheck
