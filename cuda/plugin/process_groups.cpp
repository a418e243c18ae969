#include "cuda/plugin/process_groups.h"

#include <signal.h>

#include <array>

namespace mlacheck {

namespace {

// The groups that are running, for the signal handler; 0: free. A worker that finds no room here
// still ends with this process.
std::array<std::atomic<pid_t>, 256> running_groups = {};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void end_all_groups(int signal) {
  kill_running_groups();
  // Then what the signal does by itself.
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void handle_signals_once() {
  static const bool done = [] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action = {};
      if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
      action.sa_handler = end_all_groups;
      sigaction(signal, &action, nullptr);
    }
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

void kill_running_groups() {
  for (const std::atomic<pid_t>& group : running_groups)
    if (const pid_t leader = group.load(); leader != 0) kill(-leader, SIGKILL);
}

RunningGroup::RunningGroup(pid_t leader) {
  handle_signals_once();
  for (std::atomic<pid_t>& group : running_groups) {
    pid_t free = 0;
    if (!group.compare_exchange_strong(free, leader)) continue;
    place_ = &group;
    return;
  }
}

RunningGroup::~RunningGroup() {
  if (place_ != nullptr) place_->store(0);
}

}  // namespace mlacheck
