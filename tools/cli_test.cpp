// The program from outside: help, usage errors, what it prints, the files that it writes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli_testing.h"
#include "tools/xml_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kSmall = "mlacheck1 op=sparse_attention t=1 h=2 k=16 n=64 fill=census";
const std::string kNothingToShow = "mlacheck1 op=sparse_attention t=0";

// ---- Help ----

TEST(Help, OfEveryCommandNamesItsOptions) {
  const std::vector<std::pair<Arguments, Arguments>> commands = {
      {{}, {"gate", "run", "golden", "oracle", "kernels", "--version", "Exit codes"}},
      {{"gate"},
       {"--golden", "--kernel", "--require-gpu", "--junit", "--json", "--verbose", "Exit codes"}},
      {{"run"},
       {"recipe", "--kernel", "--junit", "--json", "sparse_attention", "index_scores", "page=0 ",
        "slots of a page; 0: a flat cache", "map_slots", "Exit codes"}},
      {{"golden"}, {"capture", "record", "check", "show", "diff", "manifest"}},
      {{"golden", "capture"},
       {"--recipe", "--checkpoint", "--recording", "--layers", "--inputs", "--profile",
        "--numerics", "--topk", "--dtype", "--out"}},
      {{"golden", "record"}, {"--kernel", "--recipes", "--out", "--emulated"}},
      {{"golden", "check"}, {"file", "--checkpoint", "--junit", "--json", "Exit codes"}},
      {{"golden", "show"}, {"file"}},
      {{"golden", "diff"}, {"left", "right"}},
      {{"golden", "manifest"}, {"folder"}},
      {{"oracle"}, {"file", "--junit", "--json", "Exit codes"}},
      {{"kernels"}, {"library", "--for"}}};
  for (auto [command, options] : commands) {
    command.push_back("--help");
    const Outcome outcome = mlacheck(command);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    for (const std::string& option : options) EXPECT_THAT(outcome.out, HasSubstr(option));
    EXPECT_THAT(outcome.out, Not(HasSubstr("worker"))) << "an internal command";
  }
}

TEST(Help, VersionIsOneLine) {
  const Outcome outcome = mlacheck({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, ::testing::MatchesRegex("mlacheck [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// ---- Usage ----

void expect_usage_error(const Arguments& arguments, const std::string& said) {
  const Outcome outcome = mlacheck(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr(said));
}

TEST(Usage, WrongArgumentsExitWithTwo) {
  expect_usage_error({}, "subcommand");
  expect_usage_error({"frobnicate"}, "there is no command 'frobnicate'");
  expect_usage_error({"golden", "frobnicate"}, "there is no command 'frobnicate'");
  expect_usage_error({"run"}, "recipe");
  expect_usage_error({"run", "--speed"}, "recipe");
  expect_usage_error({"run", kSmall, "--speed"}, "--speed");
  expect_usage_error({"run", kSmall, "--json", ""}, "--json: expected a value, got ''");
  expect_usage_error({"gate", "--golden"}, "--golden");
  expect_usage_error({"golden"}, "subcommand");
  expect_usage_error({"golden", "show"}, "file");
  expect_usage_error({"golden", "show", ""}, "file: expected a value, got ''");
  expect_usage_error({"golden", "capture", "--out", "x.h5"}, "--recipe");
  expect_usage_error({"golden", "capture", "--recipe", kSmall}, "--out");
  expect_usage_error(
      {"golden", "capture", "--recipe", kSmall, "--recording", "a.h5", "--out", "x.h5"},
      "--recording");
  expect_usage_error({"golden", "capture", "--checkpoint", ".", "--out", "x.h5"}, "--layers");
  expect_usage_error({"golden", "capture", "--checkpoint", ".", "--layers", "0", "--inputs", "i",
                      "--numerics", "fp8", "--out", "x.h5"},
                     "fp32");
}

TEST(Usage, ABadRecipeSaysWhatIsAllowed) {
  const std::string start = "mlacheck1 op=sparse_attention ";
  expect_usage_error({"run", start + "speed=11"}, "speed");
  expect_usage_error({"run", start + "speed=11"}, "fill");  // among the keys that there are
  expect_usage_error({"run", start + "h=0"}, "from 1 to");
  expect_usage_error({"run", start + "h=many"}, "an integer");
  expect_usage_error({"run", start + "h=2 h=3"}, "h");
  expect_usage_error({"run", start + "fill=zebra"}, "census");
  expect_usage_error({"run", "mlacheck1 op=dense_attention"}, "index_scores");
  expect_usage_error({"run", "mlacheck2 op=sparse_attention"}, "version");
  expect_usage_error({"run", ""}, "mlacheck1");
  expect_usage_error({"kernels", "--for", start + "speed=11"}, "speed");
}

// ---- Running a case ----

TEST(Run, PrintsTheWholeRecipeAndAVerdictForEachOutput) {
  const Outcome outcome = mlacheck({"run", kSmall});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::StartsWith("mlacheck1 op=sparse_attention t=1 h=2 k=16"));
  EXPECT_THAT(outcome.out, HasSubstr("seed=1"));
  for (const char* output : {"out", "lse", "max_logit"})
    EXPECT_THAT(outcome.out,
                HasSubstr(std::string("PASS       reference sparse_attention.") + output));
  EXPECT_THAT(outcome.out, HasSubstr("run: 3 PASS in"));
}

TEST(Run, ACaseThatCanShowNothingIsMistrusted) {
  const Outcome outcome = mlacheck({"run", kNothingToShow});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.out, HasSubstr("MISTRUSTED"));
}

TEST(Run, JudgesEveryOperator) {
  for (const char* recipe :
       {"mlacheck1 op=index_scores t=2 h=4 n=64", "mlacheck1 op=top_k t=2 n=64 k=8",
        "mlacheck1 op=layer model=glm5:tiny tokens=4"}) {
    const Outcome outcome = mlacheck({"run", recipe, "--kernel", MLACHECK_REFERENCE_LIBRARY});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
}

TEST(Run, NamesAKernelLibraryThatIsNone) {
  for (const char* path : {"/nowhere/libx.so", "/etc/hostname"}) {
    const Outcome outcome = mlacheck({"run", kSmall, "--kernel", path});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, HasSubstr(path));
  }
  EXPECT_EQ(mlacheck({"kernels", "/nowhere/libx.so"}).code, 3);
}

TEST(Run, AReportThatCannotBeWrittenIsNoPass) {
  for (const char* arguments :
       {"run 'mlacheck1 op=top_k t=1 n=8 k=2'", "run --help", "--version"}) {
    const std::string command = fmt::format("{} {} 2>/dev/null >", MLACHECK_PROGRAM, arguments);
    EXPECT_EQ(WEXITSTATUS(std::system((command + "/dev/full").c_str())), 3) << arguments;
    EXPECT_EQ(WEXITSTATUS(std::system((command + "&-").c_str())), 3) << arguments;
    EXPECT_EQ(WEXITSTATUS(std::system((command + "/dev/null").c_str())), 0) << arguments;
  }
}

TEST(Kernels, SaysWhatTheReferenceDeclaresAndSupports) {
  const Outcome outcome = mlacheck({"kernels", "--for", kSmall});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* said : {"sparse_attention", "index_scores", "top_k", "index_select", "map_slots",
                           "lse base e", "supports it", "is for another operator",
                           "query-key sums: 16 lanes, 1 term a step, terms rounded",
                           "weights f32 scaled by 1, before the division by their sum",
                           "tile none, headroom 0, exp error ", "underflow below 2^-126",
                           "one split, subnormals kept", "scores f32, -inf outside a range"})
    EXPECT_THAT(outcome.out, HasSubstr(said));
}

// Limits that nothing derives are told where they are used, with their reasons.
TEST(Help, TellsTheFlatLimits) {
  for (const Arguments& command : {Arguments{"oracle"}, Arguments{"golden", "import"}}) {
    Arguments help = command;
    help.emplace_back("--help");
    EXPECT_THAT(mlacheck(help).out, AllOf(HasSubstr("flat limits"),
                                          ::testing::ContainsRegex("\n  output +2e-05 +0.015 ")));
  }
  EXPECT_THAT(mlacheck({"golden", "synthesize", "--help"}).out,
              HasSubstr("{bf16,fp8,gguf,gguf-bf16}"));
}

TEST(Oracle, TakesAFolder) {
  const TemporaryFolder folder;
  EXPECT_THAT(mlacheck({"oracle", folder.path()}).err, HasSubstr("holds no .h5 file"));
  const std::string golden = folder / "a.h5";
  ASSERT_EQ(mlacheck({"golden", "capture", "--recipe", kSmall, "--out", golden}).code, 0);
  EXPECT_THAT(mlacheck({"oracle", folder.path()}).err, HasSubstr(golden + ": /@schema: a golden"));
}

TEST(Oracle, OfAGoldenFileSaysWhatReadsIt) {
  const TemporaryFolder folder;
  const std::string golden = folder / "a.h5";
  ASSERT_EQ(mlacheck({"golden", "capture", "--recipe", kSmall, "--out", golden}).code, 0);
  const Outcome outcome = mlacheck({"oracle", golden});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(
      outcome.err,
      HasSubstr(golden + ": /@schema: a golden file, not a capture: `mlacheck golden check`"));
}

// ---- Reports ----

TEST(ReportFiles, AreJsonAndJunit) {
  const TemporaryFolder folder;
  const std::string json = folder / "a.json", junit = folder / "a.xml";
  EXPECT_EQ(mlacheck({"run", kSmall, "--json", json, "--junit", junit}).code, 0);
  EXPECT_THAT(statuses(json), ::testing::ElementsAre(
                                  ::testing::Pair("reference sparse_attention.lse", "PASS"),
                                  ::testing::Pair("reference sparse_attention.max_logit", "PASS"),
                                  ::testing::Pair("reference sparse_attention.out", "PASS")));
  const std::string xml = read_file(junit);
  EXPECT_EQ(flaw_of_xml(xml), "");
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"0\""));
}

TEST(ReportFiles, HoldErrorsToo) {
  const TemporaryFolder folder;
  const std::string json = folder / "a.json", junit = folder / "a.xml", none = folder / "none.h5";
  EXPECT_EQ(mlacheck({"golden", "check", none, "--json", json, "--junit", junit}).code, 3);
  const nlohmann::json document = nlohmann::json::parse(read_file(json));
  ASSERT_EQ(document.at("errors").size(), 1u);
  EXPECT_THAT(document.at("errors")[0].get<std::string>(), HasSubstr(none));
  EXPECT_EQ(flaw_of_xml(read_file(junit)), "");
  EXPECT_THAT(read_file(junit), HasSubstr("errors=\"1\""));
}

TEST(ReportFiles, ThatCannotBeWrittenAreNamed) {
  for (const char* option : {"--json", "--junit", "--html"}) {
    const Outcome outcome = mlacheck({"run", kSmall, option, "/nowhere/report"});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, HasSubstr("/nowhere/report"));
  }
}

// Of each kind the latest; of another kind, or nobody's, none.
TEST(ReportFiles, TakeTheirOwnPlaceAlone) {
  const TemporaryFolder folder;
  folder.write("config", "{\n  \"model_type\": \"glm_moe_dsa\"}\n");
  folder.write("json.partial", "mine");
  const std::map<std::string, std::string> options = {
      {"--json", folder / "json"}, {"--junit", folder / "junit"}, {"--html", folder / "html"}};
  Arguments all = {"run", kSmall};
  for (const auto& [option, file] : options) all.insert(all.end(), {option, file});
  for (int times = 0; times < 2; ++times) EXPECT_EQ(mlacheck(all).code, 0);
  const auto before = content_of(folder.path());
  for (const auto& [option, own] : options)
    for (const char* other : {"config", "json", "junit", "html", "json.partial"}) {
      if (folder / other == own) continue;
      const Outcome outcome = mlacheck({"run", kSmall, option, folder / other});
      EXPECT_EQ(outcome.code, 3);
      EXPECT_THAT(outcome.err, HasSubstr("not replaced: expected an earlier "));
      EXPECT_THAT(outcome.out, Not(HasSubstr("PASS")));
    }
  EXPECT_EQ(content_of(folder.path()), before);
}

TEST(ReportFiles, AreNoTwoInOne) {
  const TemporaryFolder folder;
  const std::string one = (folder / "report").string();
  std::filesystem::create_directory(folder / "a");
  std::filesystem::create_symlink(folder.path(), folder / "link");
  for (const std::filesystem::path& spelled :
       {folder / "report", folder / "./report", folder / "a/../report", folder / "link/report"}) {
    const Outcome outcome = mlacheck({"run", kSmall, "--json", one, "--html", spelled});
    EXPECT_EQ(outcome.code, 2) << spelled;
    EXPECT_THAT(outcome.err, HasSubstr("two of them to " + spelled.string()));
  }
  EXPECT_FALSE(std::filesystem::exists(one));
}

// The checker of these tests can say no.
TEST(ReportFiles, MalformedXmlWouldBeSeen) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  EXPECT_EQ(flaw_of_xml(head + "<a b=\"c &amp; d\">\n  <e/>\n</a>\n"), "");
  for (const char* wrong : {"<a>", "<a></b>", "<a b=\"<\"/>", "<a b=\"&\"/>", "<a b=c/>",
                            "<a/><b/>", "<a>\x1b</a>", "a", ""})
    EXPECT_NE(flaw_of_xml(head + wrong), "") << wrong;
}

TEST(ReportFiles, BytesThatAreNoUtf8WouldBeSeen) {
  EXPECT_TRUE(is_utf8("a \u00e9 \u20ac \ufffd \U0001f600"));
  for (const char* wrong : {"\xff", "\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xe2\x82"
                            "a"})
    EXPECT_FALSE(is_utf8(wrong));
}

constexpr const char* kEscape = "\x1b";

TEST(Colours, AreForTerminalsAlone) {
  EXPECT_THAT(mlacheck({"run", kSmall}).out, Not(HasSubstr(kEscape)));
  const Outcome terminal = mlacheck_on_terminal({"run", kSmall});
  EXPECT_EQ(terminal.code, 0);
  EXPECT_THAT(terminal.out, HasSubstr("\x1b[32mPASS"));
  const Outcome plain = mlacheck_on_terminal({"run", kSmall}, {{"NO_COLOR", "1"}});
  EXPECT_THAT(plain.out, AllOf(HasSubstr("PASS"), Not(HasSubstr("\x1b[3"))));
  const Outcome log = mlacheck_on_terminal({"run", kSmall}, {{"CI", "true"}});
  EXPECT_THAT(log.out, AllOf(HasSubstr("PASS"), Not(HasSubstr(kEscape))));
}

TEST(Annotations, AreForFailuresAlone) {
  EXPECT_THAT(mlacheck({"run", kSmall}, {{"GITHUB_ACTIONS", "1"}}).out, Not(HasSubstr("::error")));
}

// ---- The gate's refusals ----

TEST(Gate, WantsGoldenFiles) {
  const TemporaryFolder folder;
  const Outcome outcome = mlacheck({"gate", "--golden", folder.path()});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr(folder.path()));
  EXPECT_EQ(mlacheck({"gate", "--golden", "/nowhere"}).code, 3);
  EXPECT_EQ(mlacheck({"gate", "--kernel", "/nowhere/libx.so"}).code, 3);
}

TEST(Gate, WithoutAGpuSaysSoBeforeItStarts) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU here";
  const Outcome outcome = mlacheck({"gate", "--require-gpu"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("--require-gpu: there is no GPU here"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("PASS")));
}

}  // namespace
}  // namespace mlacheck::testing
