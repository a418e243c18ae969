#include "tools/reference_library.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "cuda/plugin/library_description.h"
#include "fixtures/regular_file.h"

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

// Built, installed.
std::array<std::filesystem::path, 2> library_places(const char* file) {
  return {this_program().parent_path() / file,
          prefix() / MLACHECK_INSTALL_LIBDIR / "mlacheck" / file};
}

std::filesystem::path library(const char* what, const char* file) {
  const auto [built, installed] = library_places(file);
  return first_of(what, built, installed);
}

// Nothing where it was not built.
std::optional<std::filesystem::path> optional_library(const char* file) {
  for (const std::filesystem::path& path : library_places(file))
    if (std::filesystem::exists(path)) return path;
  return std::nullopt;
}

}  // namespace

std::filesystem::path reference_library() {
  return library("the reference's kernel library", "libmlacheck_reference.so");
}

std::filesystem::path emulated_library() {
  return library("the library of emulated kernels", "libmlacheck_emulated.so");
}

std::filesystem::path museum_library() {
  return library("the library of planted faults", "libmlacheck_museum.so");
}

std::optional<std::filesystem::path> gpu_library() {
  return optional_library("libmlacheck_gpu.so");
}

std::optional<std::filesystem::path> floors_library() {
  return optional_library("libmlacheck_floors.so");
}

KernelLibrary load_library(const std::filesystem::path& path, std::chrono::seconds timeout) {
  require_no_special_file(path);
  if (path.extension() != ".py")
    return describe_in_worker(service_by(this_program(), path, timeout));
  const std::filesystem::path server =
      first_of("the server of kernels in Python", MLACHECK_PYTHON_SERVER,
               prefix() / MLACHECK_INSTALL_DATADIR / "mlacheck" / "serve_kernels.py");
  return describe_in_worker(
      {path, {"python3", server.string(), std::filesystem::absolute(path).string()}, timeout});
}

std::filesystem::path golden_folder() {
  return first_of("the folder of golden files", MLACHECK_GOLDEN_DIR,
                  prefix() / MLACHECK_INSTALL_DATADIR / "mlacheck" / "golden");
}

std::filesystem::path museum_recipes() {
  return first_of("the museum's recipes", MLACHECK_MUSEUM_RECIPES,
                  prefix() / MLACHECK_INSTALL_DATADIR / "mlacheck" / "museum_recipes.txt");
}

}  // namespace mlacheck
