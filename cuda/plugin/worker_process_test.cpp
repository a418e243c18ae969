#include "cuda/plugin/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "cuda/plugin/kernel_server.h"
#include "cuda/plugin/kernel_worker_testing.h"

namespace mlacheck {
namespace {

using std::chrono::milliseconds;

using testing::make_call;
using testing::pool;

CallOutcome run(const KernelCall& call, const char* kernel, int timeout) {
  return run_in_worker(call, {pool(LYING_KERNELS, timeout), kernel});
}

// Lying kernels write down their process and the child that they leave behind.
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

bool have_ended(const std::array<pid_t, 2>& processes) {
  return soon([&] { return !runs(processes[0]) && !runs(processes[1]); });
}

TEST(WorkerProcess, LeavesNothingBehind) {
  for (const char* kernel : {"forks", "forks_away"}) {
    const KernelCall done = make_call();
    EXPECT_EQ(run(done, kernel, 10).kind, CallOutcome::Kind::done);
    EXPECT_GT(process(done, 1), 0);
    EXPECT_TRUE(have_ended({process(done, 0), process(done, 1)})) << kernel;
  }

  const KernelCall crashed = make_call();
  EXPECT_EQ(run(crashed, "forks_and_crashes", 10).kind, CallOutcome::Kind::crashed);
  EXPECT_GT(process(crashed, 1), 0);
  EXPECT_TRUE(have_ended({process(crashed, 0), process(crashed, 1)}));

  const KernelCall hung = make_call();
  EXPECT_EQ(run(hung, "forks_and_hangs", 1).kind, CallOutcome::Kind::timed_out);
  EXPECT_GT(process(hung, 1), 0);
  EXPECT_TRUE(have_ended({process(hung, 0), process(hung, 1)}));
}

// Another process that waits for a kernel that hangs (the program's `hold`, below).
struct Holder {
  pid_t process = 0;
  std::array<pid_t, 2> kernel = {};  // and the child that it left
};

Holder hold(const char* kernel = "forks_and_hangs") {
  std::array<int, 2> pipes = {};
  EXPECT_EQ(pipe(pipes.data()), 0);
  Holder holder;
  holder.process = fork();
  if (holder.process == 0) {
    const std::string number = std::to_string(pipes[1]);
    execl("/proc/self/exe", "holder", "hold", number.c_str(), kernel, nullptr);
    _exit(126);
  }
  close(pipes[1]);
  EXPECT_EQ(read(pipes[0], holder.kernel.data(), sizeof(holder.kernel)),
            static_cast<ssize_t>(sizeof(holder.kernel)));
  close(pipes[0]);
  EXPECT_TRUE(runs(holder.kernel[0]));
  return holder;
}

TEST(WorkerProcess, EndsWithTheProcessThatWaitsForIt) {
  int status = 0;
  for (const auto& [kernel, signal] :
       {std::pair("forks_and_hangs", SIGTERM), {"forks_away_and_hangs", SIGHUP}}) {
    const Holder interrupted = hold(kernel);
    kill(interrupted.process, signal);
    waitpid(interrupted.process, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_TRUE(have_ended(interrupted.kernel)) << kernel;
  }

  const Holder killed = hold();
  kill(killed.process, SIGKILL);
  waitpid(killed.process, &status, 0);
  EXPECT_TRUE(soon([&] { return !runs(killed.kernel[0]); }));
  kill(killed.kernel[1], SIGKILL);  // nobody was left to do so
}

// Nor does it end before, with the thread that asked for it.
TEST(WorkerProcess, OutlivesTheThreadThatStartsIt) {
  const auto processes = pool(LYING_KERNELS);
  const auto who = [&] {
    const KernelCall call = make_call({});
    run_in_worker(call, {processes, "tells"});
    return process(call, 0);
  };
  pid_t first = 0;
  std::thread([&] { first = who(); }).join();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(runs(first));
  EXPECT_EQ(who(), first);
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

// Waits for a kernel that hangs; writes down its process and the child that it left.
[[noreturn]] void hold_kernel(int file_descriptor, const char* kernel) {
  const KernelCall call = make_call();
  std::thread([&] { run(call, kernel, 60); }).detach();
  if (!soon([&] { return process(call, 0) > 0; })) _exit(1);
  const std::array<pid_t, 2> processes = {process(call, 0), process(call, 1)};
  if (write(file_descriptor, processes.data(), sizeof(processes)) != sizeof(processes)) _exit(1);
  while (true) pause();
}

}  // namespace mlacheck

// The test is its own worker program, and another one that waits for a kernel.
int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "worker")
    mlacheck::serve_kernels(std::stoi(argv[4]), argv[3]);
  if (argc == 4 && std::string(argv[1]) == "hold")
    mlacheck::hold_kernel(std::stoi(argv[2]), argv[3]);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
