#include "tools/reference_library.h"

#include <fmt/format.h>

#include <stdexcept>

namespace mlacheck {

std::filesystem::path this_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

namespace {

std::filesystem::path first_of(const char* what, const std::filesystem::path& built,
                               const std::filesystem::path& installed) {
  if (std::filesystem::exists(installed)) return installed;
  if (std::filesystem::exists(built)) return built;
  throw std::runtime_error(
      fmt::format("{} is neither {} nor {}", what, built.string(), installed.string()));
}

// What the program was installed under.
std::filesystem::path prefix() { return this_program().parent_path().parent_path(); }

}  // namespace

std::filesystem::path reference_library() {
  return first_of("the reference's kernel library",
                  this_program().parent_path() / "libmlacheck_reference.so",
                  prefix() / MLACHECK_INSTALL_LIBDIR / "mlacheck" / "libmlacheck_reference.so");
}

std::filesystem::path golden_folder() {
  return first_of("the folder of golden files", MLACHECK_GOLDEN_DIR,
                  prefix() / MLACHECK_INSTALL_DATADIR / "mlacheck" / "golden");
}

}  // namespace mlacheck
