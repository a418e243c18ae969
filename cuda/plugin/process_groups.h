#pragma once

#include <sys/types.h>

#include <atomic>

namespace mlacheck {

// A process group that is killed when a signal ends this process (SIGINT, SIGTERM, SIGHUP; what is
// ignored, as under nohup, stays so).
class RunningGroup {
 public:
  explicit RunningGroup(pid_t leader);
  ~RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;

 private:
  std::atomic<pid_t>* place_ = nullptr;
};

// Kills them all. May be called by a signal handler.
void kill_running_groups();

}  // namespace mlacheck
