#include "cuda/plugin/kernel_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "cuda/plugin/call_stop.h"
#include "cuda/plugin/kernel_worker_testing.h"
#include "cuda/plugin/library_description.h"

namespace mlacheck {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = CallOutcome::Kind;

using testing::make_call;
using testing::pool;
using testing::slots;

CallOutcome run(const KernelCall& call, const char* kernel) {
  return run_in_worker(call, {pool(LYING_KERNELS), kernel});
}

TEST(KernelWorker, ReturnsWhatAnHonestKernelWrote) {
  const KernelCall call = make_call();
  const CallOutcome outcome = run(call, "honest");
  EXPECT_EQ(outcome.kind, Kind::done) << outcome.detail;
  EXPECT_THAT(slots(call), ElementsAre(3, 1, 4, 1, 5, 9, 2, 6));
  EXPECT_THAT(call.trespasses(), IsEmpty());
}

TEST(KernelWorker, LeavesPoisonWhereAKernelWritesNothing) {
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "idle").kind, Kind::done);
  for (std::int32_t slot : slots(call)) EXPECT_EQ(static_cast<std::uint32_t>(slot), 0xa5a5a5a5u);
}

TEST(KernelWorker, ReportsACrashWithItsSignal) {
  const KernelCall call = make_call();
  const CallOutcome outcome = run(call, "crashes");
  EXPECT_EQ(outcome.kind, Kind::crashed);
  EXPECT_THAT(outcome.detail, HasSubstr("signal 6"));
}

TEST(KernelWorker, ReportsAKernelThatEndsTheProcess) {
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "leaves").kind, Kind::crashed);
}

TEST(KernelWorker, EndsAKernelThatHangs) {
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "hangs").kind, Kind::timed_out);
}

TEST(KernelWorker, PassesOnTheReasonOfARefusalAndOfAFailure) {
  const KernelCall call = make_call();
  const CallOutcome refused = run(call, "refuses");
  EXPECT_EQ(refused.kind, Kind::refused);
  EXPECT_EQ(refused.detail, "count 8: only multiples of 64");

  const KernelCall second = make_call();
  const CallOutcome failed = run(second, "fails");
  EXPECT_EQ(failed.kind, Kind::failed);
  EXPECT_EQ(failed.detail, "out of patience");
}

TEST(KernelWorker, AsksForSupportWithoutARun) {
  const auto ask = [](const KernelCall& call, const char* kernel) {
    return ask_in_worker(call, {pool(LYING_KERNELS), kernel});
  };
  const KernelCall call = make_call();
  EXPECT_EQ(ask(call, "honest").kind, Kind::done);
  EXPECT_THAT(slots(call), Each(static_cast<std::int32_t>(0xa5a5a5a5)));  // as it was laid out
  EXPECT_EQ(ask(make_call(), "crashes").kind, Kind::done);                // in its run, that is
  const CallOutcome refused = ask(make_call(), "refuses");
  EXPECT_EQ(refused.kind, Kind::refused);
  EXPECT_EQ(refused.detail, "count 8: only multiples of 64");
  const CallOutcome crashed = ask(make_call(), "crashes_when_asked");
  EXPECT_EQ(crashed.kind, Kind::crashed);
  EXPECT_THAT(crashed.detail, HasSubstr("signal 6"));
}

TEST(KernelWorker, SeesWritesOutsideTensors) {
  const KernelCall past = make_call();
  EXPECT_EQ(run(past, "overruns").kind, Kind::done);
  EXPECT_THAT(past.trespasses(), ElementsAre("wrote past the end of slots"));

  const KernelCall before = make_call();
  EXPECT_EQ(run(before, "underruns").kind, Kind::done);
  EXPECT_THAT(before.trespasses(), ElementsAre("wrote before slots"));

  const KernelCall changed = make_call();
  EXPECT_EQ(run(changed, "meddles").kind, Kind::done);
  EXPECT_THAT(changed.trespasses(), ElementsAre("changed its input positions"));
}

TEST(KernelWorker, SeesWritesOutsideTheWorkspace) {
  const KernelCall call = make_call();
  const CallOutcome outcome = run(call, "spills");
  EXPECT_EQ(outcome.kind, Kind::failed);
  EXPECT_THAT(outcome.detail, HasSubstr("outside its workspace of 256 bytes"));
}

TEST(KernelWorker, SeesThatTheProblemWasChanged) {
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "alters").kind, Kind::done);
  EXPECT_THAT(call.trespasses(), ElementsAre("changed the problem"));
}

TEST(KernelWorker, BelievesNoAnswerThatItDidNotAskFor) {
  const KernelCall call = make_call();
  const CallOutcome outcome = run(call, "forges");
  EXPECT_EQ(outcome.kind, Kind::crashed);
  EXPECT_EQ(outcome.detail, "a broken answer: '77 done 0'");
}

// A page that is gone would end this process.
TEST(KernelWorker, LetsNobodyCutTheSharedMemory) {
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "cuts").kind, Kind::done);
  EXPECT_THAT(slots(call), ElementsAre(3, 1, 4, 1, 5, 9, 2, 6));
}

TEST(KernelWorker, ShowsWhatAKernelPrints) {
  const KernelCall call = make_call();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(call, "prints").kind, Kind::done);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "eight positions");
}

TEST(KernelWorker, TakesTheAnswerOfALibraryWithABadDestructor) {
  const KernelCall call = make_call();
  const CallOutcome outcome = run_in_worker(call, {pool(LYING_ENDS_BADLY), "honest"});
  EXPECT_EQ(outcome.kind, Kind::done) << outcome.detail;
  const CallOutcome none = run_in_worker(call, {pool(LYING_ENDS_BADLY), "nobody"});
  EXPECT_EQ(none.kind, Kind::failed) << none.detail;
  // But where its process makes no other call.
  const CallOutcome timed = time_in_worker(call, {pool(LYING_ENDS_BADLY), "honest"});
  EXPECT_EQ(timed.kind, Kind::crashed);
  EXPECT_EQ(timed.detail, "after its last answer: killed by signal 6 (Aborted)");
  EXPECT_EQ(time_in_worker(call, {pool(LYING_KERNELS), "honest"}).kind, Kind::refused);
}

TEST(KernelWorker, CallsALibraryNoMoreAfterItHungTooOften) {
  const KernelLibrary library =
      describe_in_worker(service_by("/proc/self/exe", LYING_KERNELS, seconds(1)));
  const KernelCall call = make_call();
  EXPECT_EQ(run_in_worker(call, library.target("honest")).kind, Kind::done);
  for (std::int64_t i = 1; i <= kMostHangs; ++i) {
    const CallOutcome hung = run_in_worker(call, library.target("hangs"));
    EXPECT_EQ(hung.kind, Kind::timed_out);
    EXPECT_EQ(hung.detail, "no answer in 1 s");
    EXPECT_EQ(library.hangs(), i);
    if (i == 1) {
      EXPECT_EQ(run_in_worker(call, library.target("honest")).kind, Kind::done);
    }
  }
  for (const CallOutcome& later : {run_in_worker(call, library.target("honest")),
                                   ask_in_worker(call, library.target("honest"))}) {
    EXPECT_EQ(later.kind, Kind::not_called);
    EXPECT_EQ(later.detail, "not called again: its library hung 3 times");
  }
}

// For a program that is told to end.
TEST(KernelWorker, WaitsForNoCallOnceCallsAreStopped) {
  const auto processes = pool(LYING_KERNELS, 60);
  const auto begin = std::chrono::steady_clock::now();
  std::thread stopper([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop_calls();
  });
  for (const char* kernel : {"hangs", "honest"}) {
    const CallOutcome outcome = run_in_worker(make_call(), {processes, kernel});
    EXPECT_EQ(outcome.kind, Kind::not_called);
    EXPECT_EQ(outcome.detail, "stopped by a signal");
  }
  stopper.join();
  resume_calls();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
  EXPECT_EQ(processes->hangs(), 0);
  EXPECT_EQ(run_in_worker(make_call(), {processes, "honest"}).kind, Kind::done);
}

TEST(KernelWorker, GivesAKernelNothingToReadFromItsUser) {
  std::array<int, 2> typed = {};
  ASSERT_EQ(pipe(typed.data()), 0);
  ASSERT_EQ(write(typed[1], "yes", 3), 3);
  const int before = dup(STDIN_FILENO);
  dup2(typed[0], STDIN_FILENO);
  const KernelCall call = make_call();
  EXPECT_EQ(run(call, "reads_input").kind, Kind::done);
  EXPECT_EQ(slots(call)[0], 0);
  dup2(before, STDIN_FILENO);
  for (const int descriptor : {typed[0], typed[1], before}) close(descriptor);
}

std::string error_of(const char* worker_program) {
  const KernelCall call = make_call();
  try {
    const auto processes =
        std::make_shared<KernelProcessPool>(service_by(worker_program, LYING_KERNELS));
    run_in_worker(call, {processes, "honest"});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// No verdict on the kernel.
TEST(KernelWorker, ThrowsWhenThereIsNoWorker) {
  EXPECT_THAT(error_of("/nowhere/mlacheck"),
              HasSubstr("cannot start the worker program /nowhere/mlacheck: No such file"));
  EXPECT_THAT(error_of("/bin/false"), HasSubstr("/bin/false ended with exit status 1"));
}

TEST(KernelWorker, NamesAKernelThatIsNotThere) {
  const KernelCall call = make_call();
  const CallOutcome kernel = run(call, "nobody");
  EXPECT_EQ(kernel.kind, Kind::failed);
  EXPECT_THAT(kernel.detail, HasSubstr("has no kernel 'nobody'; it has: honest"));
}

}  // namespace
}  // namespace mlacheck
