#include "cuda/plugin/kernel_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/temporary_folder.h"

namespace mlacheck {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = CallOutcome::Kind;

constexpr std::array<std::int32_t, 8> kPositions = {3, 1, 4, 1, 5, 9, 2, 6};

mlacheck_problem map_slots_problem() {
  mlacheck_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.op = MLACHECK_MAP_SLOTS;
  problem.u.map_slots = {8, 1, 64};
  return problem;
}

KernelCall make_call() {
  const std::array inputs = {
      KernelCall::Input{CallTensor::positions, std::as_bytes(std::span(kPositions))}};
  const std::array outputs = {KernelCall::Output{CallTensor::slots, sizeof(kPositions)}};
  return KernelCall(map_slots_problem(), inputs, outputs);
}

CallOutcome run(const KernelCall& call, const char* kernel) {
  return run_in_worker(call, {LYING_KERNELS, kernel, "/proc/self/exe"}, seconds(2));
}

std::span<const std::int32_t> slots(const KernelCall& call) {
  const std::span<const std::byte> bytes = call.tensor(CallTensor::slots);
  return {reinterpret_cast<const std::int32_t*>(bytes.data()), bytes.size() / 4};
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
    return ask_in_worker(call, {LYING_KERNELS, kernel, "/proc/self/exe"}, seconds(2));
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

TEST(KernelWorker, NamesAKernelOrAProgramThatIsNotThere) {
  const KernelCall call = make_call();
  const CallOutcome kernel = run(call, "nobody");
  EXPECT_EQ(kernel.kind, Kind::failed);
  EXPECT_THAT(kernel.detail, HasSubstr("has no kernel 'nobody'; it has: honest"));

  const KernelCall second = make_call();
  const CallOutcome program =
      run_in_worker(second, {LYING_KERNELS, "honest", "/nowhere/mlacheck"}, seconds(2));
  EXPECT_EQ(program.kind, Kind::failed);
  EXPECT_THAT(program.detail, HasSubstr("/nowhere/mlacheck"));
}

std::string refusal(const char* path) {
  try {
    KernelLibrary::open(path);
  } catch (const KernelLibraryError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelLibrary, RefusesWhatIsNoKernelLibraryAndSaysWhy) {
  EXPECT_THAT(refusal("/nowhere/libx.so"), HasSubstr("no such file"));
  const TemporaryFolder folder;
  folder.write("libtext.so", "no shared object");
  const std::string text = folder / "libtext.so";
  EXPECT_THAT(refusal(text.c_str()), HasSubstr(text));
  EXPECT_THAT(refusal(LYING_SYMBOL), HasSubstr("exports no function"));
  EXPECT_THAT(refusal(LYING_ABI), HasSubstr("built for ABI version 2"));
  EXPECT_THAT(refusal(LYING_CONTRACT), HasSubstr("contract.exp_error is 1"));
  EXPECT_THAT(refusal(LYING_SIZE), HasSubstr("has struct_size 263, expected at least 264"));
}

TEST(KernelLibrary, TakesOneThatWasBuiltBeforeFieldsWereAppended) {
  EXPECT_EQ(refusal(LYING_OLDER), "");
}

}  // namespace
}  // namespace mlacheck

// The test is its own worker program.
int main(int argc, char** argv) {
  if (argc >= 5 && std::string(argv[1]) == "worker")
    return mlacheck::serve_call(
        std::stoi(argv[2]), argv[3], argv[4],
        argc > 5 ? mlacheck::WorkerTask::supports : mlacheck::WorkerTask::run);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
