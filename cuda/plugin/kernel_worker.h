#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "cuda/plugin/kernel_call.h"

namespace mlacheck {

// What a worker process is asked: to run the kernel, or only whether it supports the problem.
enum class WorkerTask { run, supports };

// Which kernel, and the program whose `worker` command makes the call: "worker DESCRIPTOR LIBRARY
// KERNEL", with a last argument "supports" for that task.
struct KernelTarget {
  std::filesystem::path library;
  std::string kernel;
  std::filesystem::path worker_program;
};

// Long enough for the largest recipe on a slow machine, short enough to wait for a kernel that hangs.
inline constexpr std::chrono::seconds kKernelTimeout{300};

struct CallOutcome {
  enum class Kind { done, refused, failed, crashed, timed_out };
  Kind kind = Kind::failed;
  std::string detail;  // the kernel's reason, or the signal
  double seconds = 0;  // of the kernel's `run`
};

// Makes the call in a process of its own, so that a kernel that crashes, hangs or corrupts memory
// is a verdict and not the end of the run. Outputs are then in the call. Throws std::system_error
// when no process can be had.
CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target,
                          std::chrono::seconds timeout);

// The same for the kernel's `supports` alone: done when it supports the problem, refused with its
// reason otherwise.
CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target,
                          std::chrono::seconds timeout);

// The other side, in the worker process: maps the call from file_descriptor, does the task, writes
// status and outputs back. Returns the exit status: 0 once a status is written, 3 when the call
// cannot be mapped.
int serve_call(int file_descriptor, const std::filesystem::path& library, const std::string& kernel,
               WorkerTask task);

}  // namespace mlacheck
