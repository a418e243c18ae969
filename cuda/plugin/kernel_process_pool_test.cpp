#include "cuda/plugin/kernel_process_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process.h"
#include "cuda/plugin/kernel_worker_testing.h"

namespace mlacheck {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::make_call;
using testing::pool;
using testing::slots;
using Kind = CallOutcome::Kind;

// Who made the call.
struct Told {
  std::int32_t process = 0, open_files = 0;
};
Told tell(const std::shared_ptr<KernelProcessPool>& processes, int sleep = 0) {
  const KernelCall call = make_call({sleep});
  const CallOutcome outcome = run_in_worker(call, {processes, "tells"});
  EXPECT_EQ(outcome.kind, Kind::done) << outcome.detail;
  return {slots(call)[0], slots(call)[1]};
}

CallOutcome run(const std::shared_ptr<KernelProcessPool>& processes, const char* kernel) {
  const KernelCall call = make_call();
  return run_in_worker(call, {processes, kernel});
}

TEST(KernelProcessPool, MakesOneCallAfterAnotherInOneProcess) {
  const auto processes = pool(LYING_KERNELS);
  const Told first = tell(processes), second = tell(processes);
  EXPECT_EQ(first.process, second.process);
  const CallOutcome third = run(processes, "honest");
  EXPECT_EQ(third.calls_before, 2);
  EXPECT_EQ(run(pool(LYING_KERNELS), "honest").calls_before, 0);
}

TEST(KernelProcessPool, HasAProcessForEachOfTheCallsThatAreMadeAtOnce) {
  const auto processes = pool(LYING_KERNELS);
  Told first, second;
  std::thread other([&] { first = tell(processes, 300); });
  second = tell(processes, 300);
  other.join();
  EXPECT_NE(first.process, second.process);
}

TEST(KernelProcessPool, HasOthersAfresh) {
  const auto processes = pool(LYING_KERNELS);
  const Told used = tell(processes);
  const auto afresh = processes->afresh();
  EXPECT_NE(tell(afresh).process, used.process);
  EXPECT_EQ(tell(processes).process, used.process);
  EXPECT_EQ(run(afresh, "hangs").kind, Kind::timed_out);
  EXPECT_EQ(processes->hangs(), 1);
}

TEST(KernelProcessPool, UsesNoProcessAgainInWhichACallWentWrong) {
  const auto processes = pool(LYING_KERNELS);
  for (const char* kernel : {"crashes", "leaves", "fails", "forges"}) {
    const Told before = tell(processes);
    EXPECT_GT(run(processes, kernel).calls_before, 0);
    EXPECT_NE(tell(processes).process, before.process) << kernel;
  }
  const Told before = tell(processes);
  EXPECT_EQ(run(processes, "refuses").kind, Kind::refused);
  EXPECT_EQ(tell(processes).process, before.process);
}

TEST(KernelProcessPool, LeavesNoFileOpen) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto processes = pool(LYING_KERNELS);
  const Told first = tell(processes);
  const auto before = open_files();
  for (int i = 0; i < 20; ++i) run(processes, i % 2 == 0 ? "honest" : "refuses");
  EXPECT_EQ(open_files(), before);
  const Told last = tell(processes);
  EXPECT_EQ(last.process, first.process);
  EXPECT_EQ(last.open_files, first.open_files);
  // Of other processes neither.
  EXPECT_EQ(tell(pool(LYING_KERNELS)).open_files, first.open_files);
}

TEST(KernelProcessPool, TellsDamageOfAnEarlierCallByAFreshProcess) {
  const auto processes = pool(LYING_KERNELS);
  EXPECT_EQ(run(processes, "crashes_when_spoilt").kind, Kind::done);
  EXPECT_EQ(run(processes, "spoils").kind, Kind::done);
  const CallOutcome used = run(processes, "crashes_when_spoilt");
  EXPECT_EQ(used.kind, Kind::crashed);
  EXPECT_EQ(used.calls_before, 2);
  EXPECT_EQ(run(processes->afresh(), "crashes_when_spoilt").kind, Kind::done);
}

// In the words of a crash in a call, as it is up to chance which of the two it is.
TEST(KernelProcessPool, SeesAProcessThatEndsBetweenCalls) {
  const auto processes = pool(LYING_KERNELS);
  EXPECT_EQ(run(processes, "crashes_later").kind, Kind::done);
  std::this_thread::sleep_for(milliseconds(300));
  const CallOutcome outcome = run(processes, "honest");
  EXPECT_EQ(outcome.kind, Kind::crashed);
  EXPECT_EQ(outcome.detail, "killed by signal 6 (Aborted)");
  EXPECT_EQ(outcome.calls_before, 1);
  EXPECT_EQ(run(processes, "honest").kind, Kind::done);
}

TEST(KernelProcessPool, SeesHowItsProcessesEnd) {
  const auto honest = pool(LYING_KERNELS);
  EXPECT_EQ(run(honest, "honest").kind, Kind::done);
  EXPECT_THAT(honest->finish(), IsEmpty());
  EXPECT_THAT(honest->finish(), IsEmpty());  // of none
  const auto in_destructor = pool(LYING_ENDS_BADLY);
  EXPECT_EQ(run(in_destructor, "honest").kind, Kind::done);
  EXPECT_THAT(in_destructor->finish(), ElementsAre("killed by signal 6 (Aborted)"));
  const auto in_thread = pool(LYING_KERNELS);
  EXPECT_EQ(run(in_thread, "crashes_later").kind, Kind::done);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_THAT(in_thread->finish(), ElementsAre("killed by signal 6 (Aborted)"));
}

// For both at once.
TEST(KernelProcessPool, WaitsForAllEndsTogether) {
  const auto processes = pool(LYING_KERNELS);
  std::array loaded = {processes->take(false), processes->take(false)};
  std::array<pid_t, 2> numbers = {};
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const KernelCall call = make_call();
    for (const char* kernel : {"tells", "hangs_at_exit"})
      EXPECT_EQ(loaded[i]->process.ask("run", kernel, call.file_descriptor(), seconds(5)).kind,
                WorkerAnswer::Kind::done);
    numbers[i] = slots(call)[0];
  }
  EXPECT_NE(numbers[0], numbers[1]);
  for (auto& process : loaded) processes->give_back(std::move(process));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(processes->finish(milliseconds(1000)),
              ElementsAre("has not ended 1000 ms after it was asked to"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1900));
  for (const pid_t number : numbers) EXPECT_NE(kill(number, 0), 0);
}

TEST(KernelProcessPool, SeesAProcessThatSpeaksUnasked) {
  const auto processes = pool(LYING_KERNELS);
  EXPECT_EQ(run(processes, "babbles_later").kind, Kind::done);
  std::this_thread::sleep_for(milliseconds(300));
  const CallOutcome outcome = run(processes, "honest");
  EXPECT_EQ(outcome.kind, Kind::crashed);
  EXPECT_EQ(outcome.detail, "a broken answer: 'still here\\x0a'");
  EXPECT_EQ(run(processes, "honest").kind, Kind::done);
}

TEST(KernelProcess, FailsATaskThatItDoesNotKnow) {
  KernelProcess process(service_by("/proc/self/exe", LYING_KERNELS, seconds(5)).command,
                        seconds(5));
  const KernelCall call = make_call();
  const WorkerAnswer answer = process.ask("runs", "honest", call.file_descriptor(), seconds(5));
  EXPECT_EQ(answer.kind, WorkerAnswer::Kind::failed);
  EXPECT_EQ(answer.text, "unknown task 'runs'");
}

// By the process's end: its socket stays open.
TEST(KernelProcessPool, SeesACrashThoughAChildOfTheKernelLives) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run(pool(LYING_KERNELS, 60), "forks_and_crashes").kind, Kind::crashed);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
}

}  // namespace
}  // namespace mlacheck
