// mlacheck fuzz as its users run it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <thread>

#include "cuda/plugin/call_stop.h"
#include "property_tests/recipe_file.h"
#include "tools/cli_testing.h"
#include "tools/interruption.h"
#include "tools/xml_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

Arguments fuzz(const Arguments& arguments) {
  Arguments all = {"fuzz"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}
std::string wrong_library(const std::string& kernel) {
  return std::string(WRONG_KERNELS) + "/libwrong_kernel_" + kernel + ".so";
}

// Of all that is no PASS.
std::vector<std::string> repeats(const std::filesystem::path& json) {
  std::vector<std::string> commands;
  const nlohmann::json document = nlohmann::json::parse(read_file(json));
  for (const nlohmann::json& check : document.at("checks"))
    if (check.at("status") != "PASS") commands.push_back(check.at("repro"));
  return commands;
}

TEST(Fuzz, PassesTheReferenceAndShowsWhatItTried) {
  const TemporaryFolder folder;
  const Outcome outcome =
      mlacheck(fuzz({"--kernel", MLACHECK_REFERENCE_LIBRARY, "--op", "top_k", "--op", "map_slots",
                     "--cases", "120", "--json", folder / "a.json", "--junit", folder / "a.xml"}));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(statuses(folder / "a.json"),
              AllOf(SizeIs(2), Each(Pair(HasSubstr("libmlacheck_reference.so:"), "PASS"))));
  EXPECT_EQ(flaw_of_xml(read_file(folder / "a.xml")), "");
  EXPECT_THAT(outcome.out, HasSubstr("top_k: 60 cases judged, 0 refused"));
  EXPECT_THAT(outcome.out, HasSubstr("would show"));
  EXPECT_THAT(mlacheck({"fuzz", "--help"}).out,
              HasSubstr("rescale           what was summed before the maximum rose is not"));
  EXPECT_THAT(outcome.out, ContainsRegex("fuzz: [0-9.]+ cases/s"));
}

TEST(Fuzz, ShrinksAFailureToARecipeThatRepeatsIt) {
  const TemporaryFolder folder;
  const Arguments arguments = fuzz({"--kernel", wrong_library("drops_last_key"), "--seconds", "60",
                                    "--stop-on-first", "--regressions", folder / "r.txt"});
  const Outcome outcome = mlacheck(arguments);
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("FAIL"));
  const std::vector<Recipe> kept = read_recipes(folder / "r.txt");
  ASSERT_THAT(kept, SizeIs(1));
  EXPECT_THAT(outcome.out, HasSubstr(minimal(kept[0])));
  const Outcome repeated =
      mlacheck({"run", minimal(kept[0]), "--kernel", wrong_library("drops_last_key")});
  EXPECT_EQ(repeated.code, 1) << repeated.out;
  // It is what the next campaign tries first, and keeps once.
  EXPECT_EQ(mlacheck(arguments).code, 1);
  EXPECT_THAT(read_recipes(folder / "r.txt"), SizeIs(1));
}

TEST(Fuzz, GoesOnAfterACrash) {
  const Outcome outcome =
      mlacheck(fuzz({"--kernel", wrong_library("crashes"), "--cases", "12", "--verbose"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("CRASHED"));
  EXPECT_THAT(outcome.out, HasSubstr("sparse_attention: "));
  // Each recipe stands in the log before it runs.
  EXPECT_THAT(outcome.out, HasSubstr("libwrong_kernel_crashes.so:crashes: mlacheck1 op="));
}

// For one that hangs when its seconds are over: it may have been slow.
TEST(Fuzz, GivesACallUpWhenItsSecondsAreOver) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome =
      mlacheck(fuzz({"--kernel", wrong_library("hangs"), "--seconds", "3", "--timeout", "300"}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(outcome.code, 4) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("it may hang: given up when the time was over, after "
                                         "[0-9.]+ s: mlacheck run '.*libwrong_kernel_hangs.so"));
  EXPECT_THAT(outcome.out,
              ContainsRegex("ended by its time in libwrong_kernel_hangs.so:hangs: mlacheck run '"));
}

// With the time that its call had, which is not what run gives by itself; and an end of a process
// by the campaign that came to it.
TEST(Fuzz, SaysHowToSeeAHangAndACrashAtTheEndAgain) {
  const TemporaryFolder folder;
  const Outcome hang = mlacheck(fuzz({"--kernel", wrong_library("hangs"), "--timeout", "1",
                                      "--stop-on-first", "--json", folder / "a.json"}));
  EXPECT_EQ(hang.code, 1);
  EXPECT_THAT(repeats(folder / "a.json"),
              ElementsAre(EndsWith("libwrong_kernel_hangs.so --timeout 1")));
  const std::filesystem::path batch = folder / "set_sparse_attention_one.txt";
  folder.write(batch.filename(), "mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256\n");
  const Outcome end =
      mlacheck(fuzz({"--kernel", wrong_library("crashes_at_exit"), "--op", "sparse_attention",
                     "--seed", "7", "--batch", batch, "--json", folder / "b.json"}));
  EXPECT_EQ(end.code, 1) << end.out;
  EXPECT_THAT(repeats(folder / "b.json"),
              Contains("mlacheck fuzz --kernel " + wrong_library("crashes_at_exit") +
                       " --op sparse_attention --seed 7 --batch " + batch.string()));
}

TEST(Fuzz, TakesRecipesFromABatch) {
  const TemporaryFolder folder;
  folder.write("set_top_k_mine.txt", "mlacheck1 op=top_k t=2 n=64 k=8  # small\n");
  const Outcome outcome = mlacheck(
      fuzz({"--kernel", MLACHECK_REFERENCE_LIBRARY, "--batch", folder / "set_top_k_mine.txt"}));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("top_k: 1 cases judged"));
  folder.write("mine.txt", "mlacheck1 op=top_k\n");
  EXPECT_EQ(mlacheck(fuzz({"--batch", folder / "mine.txt"})).code, 2);
  folder.write("test_layers_ci.txt", "mlacheck1 op=layer\n");
  const Outcome layers = mlacheck(fuzz({"--batch", folder / "test_layers_ci.txt"}));
  EXPECT_EQ(layers.code, 2);
  EXPECT_THAT(layers.err, HasSubstr("layers are not fuzzed"));
}

TEST(Fuzz, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(mlacheck(fuzz({"--op", "softmax"})).code, 2);
  EXPECT_EQ(mlacheck(fuzz({"--cases", "0"})).code, 2);
  for (const char* seconds : {"nan", "inf", "-inf", "-1", "0", "1e999", "ten"})
    for (const char* command : {"fuzz", "museum"})
      EXPECT_EQ(mlacheck({command, "--seconds", seconds}).code, 2) << command << seconds;
  for (const char* shard : {"4/4", "1", "-1/4", "1/0", "1/4x", " 0/1", "0/ 1", "0/"}) {
    const Outcome outcome = mlacheck(fuzz({"--shard", shard}));
    EXPECT_EQ(outcome.code, 2) << shard;
    EXPECT_THAT(outcome.err, HasSubstr("expected i/n with 0 <= i < n")) << shard;
  }
  const Outcome none = mlacheck(fuzz({"--op", "top_k", "--kernel", wrong_library("crashes")}));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no kernel of top_k among those of"));
}

bool has_begun(const std::string& out) { return out.find("op=") != std::string::npos; }

// The program, started, with its output in files; told by a signal once it has come so far.
Outcome signalled(const Arguments& arguments, int signal,
                  const std::function<bool(const std::string& out)>& is_there = has_begun) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen((folder / "out").c_str(), "w", stdout) == nullptr ||
        std::freopen((folder / "err").c_str(), "w", stderr) == nullptr)
      _exit(125);
    become_mlacheck(arguments, {});
  }
  siginfo_t ended = {};
  while (!is_there(read_file(folder / "out")) && ended.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  kill(child, signal);
  const int code = wait_for(child);
  return {code, read_file(folder / "out"), read_file(folder / "err")};
}

TEST(Fuzz, ReportsWhenItIsToldToEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    const Outcome outcome =
        signalled(fuzz({"--kernel", MLACHECK_REFERENCE_LIBRARY, "--op", "top_k", "--verbose",
                        "--seconds", "200", "--json", folder / "a.json"}),
                  signal);
    EXPECT_THAT(outcome.code, ::testing::AnyOf(0, 4, 77)) << outcome.out << outcome.err;
    EXPECT_THAT(statuses(folder / "a.json"), SizeIs(1));
    EXPECT_THAT(outcome.out, ContainsRegex("ended by a signal in [^ ]*: mlacheck run 'mlacheck1 "));
  }
}

// The first one is for a report, though a deadline has stopped the calls before.
TEST(Interruption, TakesASignalAfterADeadlineForTheFirst) {
  {
    const Interruption interruption;
    stop_calls();
    EXPECT_FALSE(Interruption::requested());
    raise(SIGINT);
    EXPECT_TRUE(Interruption::requested());
  }
  EXPECT_FALSE(Interruption::requested() || calls_stopped());
}

// It waits neither for a call that hangs nor for a reference of some minutes.
TEST(Fuzz, EndsAtOnceWhenItIsTold) {
  const std::string recipe = "mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256";
  for (const Arguments& arguments :
       {fuzz({"--kernel", wrong_library("hangs"), "--verbose", "--timeout", "300"}),
        Arguments{"run", recipe, "--kernel", wrong_library("hangs")},
        Arguments{"run", "mlacheck1 op=sparse_attention t=20000 h=8 k=2048 n=4096"}}) {
    const TemporaryFolder folder;
    Arguments all = arguments;
    all.insert(all.end(), {"--json", folder / "a.json"});
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = signalled(all, SIGINT, [](const std::string& out) {
      if (!has_begun(out)) return false;
      std::this_thread::sleep_for(std::chrono::seconds(2));  // by then in the call
      return true;
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    EXPECT_EQ(outcome.code, arguments[0] == "run" ? 3 : 77) << outcome.out << outcome.err;
    EXPECT_THAT(statuses(folder / "a.json"), Not(Contains(Pair(HasSubstr("hangs"), "CRASHED"))));
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("ended by a signal"));
  }
}

// It waits for the library's last kernel.
TEST(Fuzz, RunReportsEachKernelAsItIsJudged) {
  const TemporaryFolder folder;
  const Outcome outcome = signalled(
      {"run", "mlacheck1 op=sparse_attention t=1 h=1 k=8 n=32", "--kernel",
       MLACHECK_SOURCE_DIR "/tools/plugins/wrong_kernels.py", "--timeout", "10", "--json",
       folder / "a.json"},
      SIGINT, [](const std::string& out) { return out.find("FAIL") != std::string::npos; });
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(statuses(folder / "a.json"),
              AllOf(Contains(Pair(HasSubstr("shifts_lse"), "FAIL")),
                    Not(Contains(Pair(HasSubstr("hangs"), ::testing::_)))));
}

// A kernel in Python that writes nothing, and hangs when it is called for the third time: for the
// stage of what its two calls have shown.
std::string hangs_the_third_time(const TemporaryFolder& folder) {
  folder.write("mine.py",
               "import serve_kernels, sys, time\n"
               "sys.path.append('" MLACHECK_SOURCE_DIR
               "/tools/plugins')\n"
               "from python_kernel import CONTRACT, CONVENTIONS\n"
               "serve_kernels.kernels.clear()\n"
               "@serve_kernels.kernel('sparse_attention', conventions=CONVENTIONS, "
               "contract=CONTRACT)\n"
               "def mine(problem, tensors):\n"
               "    with open(__file__ + '.calls', 'a') as calls: calls.write('.')\n"
               "    if len(open(__file__ + '.calls').read()) > 2: time.sleep(1000)\n");
  return folder / "mine.py";
}

const std::string kTiny = "mlacheck1 op=sparse_attention t=1 h=1 k=8 n=32";

TEST(Fuzz, RunKeepsAFailureWhoseStageIsSoughtWhenItIsTold) {
  const TemporaryFolder folder;
  const Outcome outcome = signalled(
      {"run", kTiny, "--kernel", hangs_the_third_time(folder), "--json", folder / "a.json"}, SIGINT,
      [&](const std::string&) { return read_file(folder / "mine.py.calls") == "..."; });
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(statuses(folder / "a.json"), Contains(Pair(HasSubstr("mine.py"), "FAIL")));
  EXPECT_THAT(outcome.err, HasSubstr("ended by a signal"));
}

TEST(Fuzz, RunSaysThatItLooksForAStageAndWhyItFindsNone) {
  const TemporaryFolder folder;
  const Outcome outcome = mlacheck_on_terminal(
      {"run", kTiny, "--kernel", hangs_the_third_time(folder), "--timeout", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("mine.py:mine: FAIL; looking for its stage"),
                                 HasSubstr("looking for the stage was given up: the kernel, asked "
                                           "again: no answer in 1 s")));
}

TEST(Fuzz, KeepsAFailureThatTheRegressionFileDoesNotGet) {
  const TemporaryFolder folder;
  const Outcome outcome =
      mlacheck(fuzz({"--kernel", wrong_library("zeros"), "--cases", "3", "--regressions",
                     "/nowhere/r.txt", "--json", folder / "a.json"}));
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(statuses(folder / "a.json"), Contains(Pair(HasSubstr("zeros"), "FAIL")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--regressions: "), HasSubstr("not appended"),
                                 HasSubstr("/nowhere/r.txt: No such file")));
}

TEST(Fuzz, LeavesTheRecipeBehindWhenItDies) {
  const Outcome outcome = signalled(
      fuzz({"--kernel", MLACHECK_REFERENCE_LIBRARY, "--verbose", "--seconds", "200"}), SIGSEGV);
  EXPECT_EQ(outcome.code, 128 + SIGSEGV);
  EXPECT_THAT(outcome.err, ContainsRegex("died in libmlacheck_reference.so:[a-z_]+: mlacheck run "
                                         "'mlacheck1 op=[^']+' --kernel "));
}

// A fault is to be caught, a kernel without one is not; one of many rows shows in none of two
// cases.
TEST(Museum, PassesWhereFaultsAloneAreCaught) {
  const TemporaryFolder folder;
  const Outcome caught =
      mlacheck({"museum", "--fault", "relu_missing", "--fault", "honest_index_scores", "--cases",
                "5", "--json", folder / "a.json"});
  EXPECT_EQ(caught.code, 0) << caught.out << caught.err;
  EXPECT_EQ(statuses(folder / "a.json"),
            (std::map<std::string, std::string>{{"relu_missing", "PASS"},
                                                {"honest_index_scores", "PASS"}}));
  EXPECT_THAT(caught.out, AllOf(HasSubstr("| `relu_missing` | 1 |"),
                                HasSubstr("1 of 1 faults caught: after 1 cases in the median")));
  const Outcome missed =
      mlacheck({"museum", "--fault", "grid_limit", "--cases", "2", "--json", folder / "b.json"});
  EXPECT_EQ(missed.code, 1) << missed.out << missed.err;
  EXPECT_THAT(repeats(folder / "b.json"),
              ElementsAre("mlacheck museum --fault grid_limit --seed 1 --cases 2"));
  const Outcome unknown = mlacheck({"museum", "--fault", "none_of_ours"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--fault none_of_ours: expected one of honest_attention"));
}

TEST(Fuzz, ShowsItsProgressOnATerminal) {
  const Outcome outcome = mlacheck_on_terminal(
      fuzz({"--kernel", MLACHECK_REFERENCE_LIBRARY, "--op", "top_k", "--cases", "60"}));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, ContainsRegex("cases/s, 0 failures; mlacheck1 op=top_k"));
}

}  // namespace
}  // namespace mlacheck::testing
