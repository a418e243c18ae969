#include "cuda/plugin/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "cuda/plugin/kernel_worker.h"

namespace mlacheck {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A call in which lying kernels write down their process and the child that they leave behind.
KernelCall make_call() {
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = MLACHECK_MAP_SLOTS;
  problem.u.map_slots = {8, 1, 64};
  static constexpr std::array<std::int32_t, 8> kPositions = {};
  const std::array inputs = {
      KernelCall::Input{CallTensor::positions, std::as_bytes(std::span(kPositions))}};
  const std::array outputs = {KernelCall::Output{CallTensor::slots, sizeof(kPositions)}};
  return KernelCall(problem, inputs, outputs);
}

CallOutcome run(const KernelCall& call, const char* kernel, seconds timeout) {
  return run_in_worker(call, {LYING_KERNELS, kernel, "/proc/self/exe", timeout});
}

pid_t process(const KernelCall& call, std::size_t i) {
  return reinterpret_cast<const volatile std::int32_t*>(call.tensor(CallTensor::slots).data())[i];
}

// A zombie has ended.
bool runs(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z';
}

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

bool have_ended(const KernelCall& call) {
  return soon([&] { return !runs(process(call, 0)) && !runs(process(call, 1)); });
}

TEST(WorkerProcess, LeavesNothingBehind) {
  const KernelCall done = make_call();
  EXPECT_EQ(run(done, "forks", seconds(10)).kind, CallOutcome::Kind::done);
  EXPECT_GT(process(done, 1), 0);
  EXPECT_TRUE(have_ended(done));

  const KernelCall hung = make_call();
  EXPECT_EQ(run(hung, "forks_and_hangs", seconds(1)).kind, CallOutcome::Kind::timed_out);
  EXPECT_GT(process(hung, 1), 0);
  EXPECT_TRUE(have_ended(hung));
}

// Sends the signal to a process that waits for a kernel that hangs; how that process ended.
int status_after(int signal, const KernelCall& call) {
  const pid_t waiting = fork();
  if (waiting == 0) {
    run(call, "forks_and_hangs", seconds(60));
    _exit(0);
  }
  EXPECT_TRUE(soon([&] { return process(call, 0) > 0; }));
  EXPECT_TRUE(runs(process(call, 0)));
  kill(waiting, signal);
  int status = 0;
  waitpid(waiting, &status, 0);
  return status;
}

TEST(WorkerProcess, EndsWithTheProcessThatWaitsForIt) {
  const KernelCall interrupted = make_call();
  const int status = status_after(SIGTERM, interrupted);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_TRUE(have_ended(interrupted));

  const KernelCall killed = make_call();
  status_after(SIGKILL, killed);
  EXPECT_TRUE(soon([&] { return !runs(process(killed, 0)); }));
  kill(process(killed, 1), SIGKILL);  // nobody was left to do so
}

TEST(WorkerProcess, NoOtherFileBecomesAStandardStream) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    open_standard_streams();
    _exit(memfd_create("next", 0) > STDERR_FILENO && fcntl(STDOUT_FILENO, F_GETFD) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mlacheck
