#pragma once

#include <string>

#include "cuda/plugin/kernel_call.h"
#include "cuda/plugin/kernel_target.h"
#include "cuda/plugin/kernel_timing.h"

namespace mlacheck {

// Before what is said of the end of a process whose calls went well.
inline constexpr const char* kAfterLastAnswer = "after its last answer: ";

struct CallOutcome {
  // not_called: its library has hung too often, or calls are stopped (call_stop.h).
  enum class Kind { done, refused, failed, crashed, timed_out, not_called };
  Kind kind = Kind::failed;
  std::string detail;                // the kernel's reason, or the signal
  double seconds = 0;                // of the kernel's `run`
  KernelTimes times = {};            // of calls that were to be timed
  std::int64_t workspace_bytes = 0;  // that those were given
  std::int64_t calls_before = 0;     // that its process had made
};

// Makes the call in another process, so that a kernel that crashes, hangs or corrupts memory is a
// verdict and not the end of the run. Outputs are then in the call. That process makes the next
// call of the library's kernels too, unless this one goes wrong. Throws std::runtime_error when no
// process can be had.
CallOutcome run_in_worker(const KernelCall& call, const KernelTarget& target);

// The same, timed, with as many calls as it has data for: outputs are those of calls in a graph. A
// kernel on host memory refuses. Always in a fresh process, which is then asked to end: a bad end
// is the outcome.
CallOutcome time_in_worker(const KernelCall& call, const KernelTarget& target);

// The same for the kernel's `supports` alone: done when it supports the problem, refused with its
// reason otherwise.
CallOutcome ask_in_worker(const KernelCall& call, const KernelTarget& target);

}  // namespace mlacheck
