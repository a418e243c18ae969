#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process_pool.h"

namespace CLI {
class App;
}

namespace mlacheck {

// The kernel libraries that a command judges.
struct KernelOptions {
  std::vector<std::string> libraries;
  int timeout_seconds = static_cast<int>(kKernelTimeout.count());

  std::chrono::seconds timeout() const { return std::chrono::seconds(timeout_seconds); }
  // Throws like load_library.
  std::vector<KernelLibrary> load() const;
};

// --kernel and --timeout.
void add_kernel_options(CLI::App& command, KernelOptions& options,
                        const std::string& kernel_help =
                            "Kernel library (.so, or .py: kernels in Python) to "
                            "judge beside the reference; may be repeated");

}  // namespace mlacheck
