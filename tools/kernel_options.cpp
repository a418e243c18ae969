#include "tools/kernel_options.h"

#include <CLI/CLI.hpp>

#include "tools/reference_library.h"

namespace mlacheck {

std::vector<KernelLibrary> KernelOptions::load() const {
  std::vector<KernelLibrary> loaded;
  for (const std::string& path : libraries) loaded.push_back(load_library(path, timeout()));
  return loaded;
}

void add_kernel_options(CLI::App& command, KernelOptions& options, const std::string& kernel_help) {
  command.add_option("--kernel", options.libraries, kernel_help);
  command
      .add_option(
          "--timeout", options.timeout_seconds,
          "Seconds that a call of a kernel has; after three that take longer its library is "
          "not called again")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
}

}  // namespace mlacheck
