#include "cuda/plugin/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace mlacheck {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAnswered = 64;  // exit status of an answer of 0: none that programs use

// The groups that are running, for the signal handler; 0: free. A worker that finds no room here
// still ends with this process.
std::array<std::atomic<pid_t>, 64> running_groups = {};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void end_all_workers(int signal) {
  for (const std::atomic<pid_t>& group : running_groups)
    if (const pid_t leader = group.load(); leader != 0) kill(-leader, SIGKILL);
  // Then what the signal does by itself.
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// What ends this process from outside ends its workers' groups first. What is ignored, as under
// nohup, stays so.
void handle_signals_once() {
  static const bool done = [] {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action = {};
      if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
      action.sa_handler = end_all_workers;
      sigaction(signal, &action, nullptr);
    }
    return true;
  }();
  static_cast<void>(done);
}

// Holds a place among running_groups.
class RunningGroup {
 public:
  explicit RunningGroup(pid_t leader) {
    for (std::atomic<pid_t>& group : running_groups) {
      pid_t free = 0;
      if (!group.compare_exchange_strong(free, leader)) continue;
      place_ = &group;
      return;
    }
  }
  ~RunningGroup() {
    if (place_ != nullptr) place_->store(0);
  }
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;

 private:
  std::atomic<pid_t>* place_ = nullptr;
};

// In the child, where only what is safe in a signal handler may be called.
[[noreturn]] void become(const char* const* arguments, int file_descriptor, pid_t parent,
                         int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);   // it ended before it could be waited for
  fcntl(file_descriptor, F_SETFD, 0);  // survives the exec of this child alone
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a kernel prints is no part of the report
  execv(arguments[0], const_cast<char* const*>(arguments));
  const int error = errno;
  const ssize_t written = write(report, &error, sizeof(error));
  _exit(written == sizeof(error) ? 127 : 126);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "waiting for a kernel worker");
  return status;
}

// Whether the child has ended by then. It stays to be waited for, so that its number is not reused.
bool ends_before(pid_t child, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(200);
  while (true) {
    siginfo_t info = {};
    const int result = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    if (result != 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "waiting for a kernel worker");
    if (result == 0 && info.si_pid == child) return true;
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20'000));
  }
}

// The number of the error that a child's exec met; 0 when it went well.
int exec_error(int report) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

}  // namespace

bool WorkerEnd::answered(int answer) const {
  return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == kAnswered + answer;
}

bool WorkerEnd::killed() const { return WIFSIGNALED(status); }

std::string WorkerEnd::words() const {
  if (!killed()) return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("killed by signal {} ({})", signal, strsignal(signal));
}

WorkerEnd run_worker(const std::filesystem::path& program, std::span<const std::string> arguments,
                     int file_descriptor, std::chrono::seconds timeout) {
  const std::string name = program.string();
  std::vector<const char*> argv = {name.c_str(), "worker", "--"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  handle_signals_once();

  std::array<int, 2> report = {};  // closed by an exec that goes well
  if (pipe2(report.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "a pipe to a kernel worker");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) become(argv.data(), file_descriptor, parent, report[1]);
  const int fork_error = errno;
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    throw std::system_error(fork_error, std::generic_category(), "fork of a kernel worker");
  }
  setpgid(child, child);  // whoever of the two is first
  WorkerEnd end;
  {
    const RunningGroup group(child);
    const int error = exec_error(report[0]);
    close(report[0]);
    if (error != 0) {
      wait_for(child);
      throw std::system_error(error, std::generic_category(),
                              fmt::format("cannot start the worker program {}", name));
    }
    end.timed_out = !ends_before(child, Clock::now() + timeout);
    kill(-child, SIGKILL);
    kill(child, SIGKILL);  // where it could make no group
  }
  end.status = wait_for(child);
  return end;
}

void end_worker(int answer) {
  std::fflush(nullptr);
  _exit(kAnswered + answer);
}

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) static_cast<void>(open("/dev/null", O_RDWR));
}

}  // namespace mlacheck
