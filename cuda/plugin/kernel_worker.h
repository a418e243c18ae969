#pragma once

#include <filesystem>
#include <string>

#include "cuda/plugin/kernel_call.h"
#include "cuda/plugin/kernel_target.h"

namespace mlacheck {

// What a worker process is asked to do with a kernel: to run it, to time it, or only to say whether
// it supports the problem.
enum class WorkerTask { run, time, supports };

struct CallOutcome {
  enum class Kind { done, refused, failed, crashed, timed_out };
  Kind kind = Kind::failed;
  std::string detail;  // the kernel's reason, or the signal
  double seconds = 0;  // of the kernel's `run`
};

// Makes the call in a process of its own, "worker -- run DESCRIPTOR LIBRARY KERNEL", so that a
// kernel that crashes, hangs or corrupts memory is a verdict and not the end of the run. Outputs are
// then in the call. Throws std::runtime_error when no process can be had or it does not take the
// call.
CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target);

// The same, timed, with as many calls as it has data for ("worker -- time ..."): the times are then
// in the call, and outputs those of calls in a graph. A kernel on host memory refuses.
CallOutcome time_in_worker(const KernelCall& call, const KernelTarget& target);

// The same for the kernel's `supports` alone, "worker -- supports ...": done when it supports the
// problem, refused with its reason otherwise.
CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target);

// The other side, in the worker process: maps the call from file_descriptor, does the task, writes
// status and outputs back and ends the process. Returns only when the call cannot be mapped: the
// exit status 3.
int serve_call(int file_descriptor, const std::filesystem::path& library, const std::string& kernel,
               WorkerTask task);

}  // namespace mlacheck
