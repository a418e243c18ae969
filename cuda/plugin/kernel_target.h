#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace mlacheck {

// Long enough for the largest recipe on a slow machine, short enough to wait for a kernel that hangs.
inline constexpr std::chrono::seconds kKernelTimeout{300};

// Which kernel to call, and how: by the `worker` command of a program (kernel_worker.h).
struct KernelTarget {
  std::filesystem::path library;
  std::string kernel;
  std::filesystem::path worker_program;
  std::chrono::seconds timeout = kKernelTimeout;
  // One for all kernels of a library, set by the first call that hangs: there is no other after
  // it. Null: each is made.
  std::shared_ptr<std::atomic<bool>> hung = nullptr;
};

}  // namespace mlacheck
