// golden check, show, diff and manifest from outside, and their reports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "fixtures/golden_file.h"
#include "tools/cli_golden_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- The good case ----

TEST(Golden, CaptureCheckAndShow) {
  const TemporaryFolder folder;
  for (const std::string& recipe : {kOperator, kLayer}) {
    const std::filesystem::path file = folder / (recipe == kLayer ? "layer.h5" : "operator.h5");
    capture(recipe, file);
    EXPECT_EQ(content_of(folder.path()).size(), recipe == kLayer ? 2u : 1u);
    const Outcome check = mlacheck({"golden", "check", file, "--verbose"});
    EXPECT_EQ(check.code, 0) << check.out << check.err;
    EXPECT_THAT(check.out, AllOf(HasSubstr("PASS"), HasSubstr(" bits"), Not(HasSubstr("FAIL"))));
    const Outcome show = mlacheck({"golden", "show", file});
    EXPECT_EQ(show.code, 0);
    EXPECT_THAT(show.out, AllOf(HasSubstr("schema version 1"), HasSubstr("kind = "),
                                HasSubstr("source = "), HasSubstr("outputs/reference/lse")));
  }
}

// Hashes hold what is stored; that it is the oracle's, only the oracle can say.
TEST(Golden, AStoredIntervalThatIsNotTheOraclesFails) {
  const TemporaryFolder folder;
  for (const std::string& recipe : {kOperator, kLayer}) {
    const std::filesystem::path file = folder / (recipe == kLayer ? "layer.h5" : "operator.h5");
    capture(recipe, file);
    Golden golden = read_golden(file);
    Dataset& high = golden.datasets.at("oracle/lse_high");
    std::vector<float> values = high.as<float>();
    values[0] += 0.001f;
    values[1] += 1;
    const Dataset tampered = make_dataset(high.shape, values);
    high.bytes = tampered.bytes;
    write_golden(file, golden);
    const Outcome check = mlacheck({"golden", "check", file});
    EXPECT_EQ(check.code, 1) << check.out << check.err;
    EXPECT_THAT(check.out, AllOf(HasSubstr(" intervals"), HasSubstr("bits.oracle/lse_high: 2 of "),
                                 HasSubstr("the furthest off at [0, 1]: expected "),
                                 Not(HasSubstr("lse_low"))));
  }
}

TEST(Golden, WithoutIntervalsClaimsNone) {
  const TemporaryFolder folder;
  capture("mlacheck1 op=top_k t=2 n=16 k=4", folder / "a.h5");
  const Outcome check = mlacheck({"golden", "check", folder / "a.h5", "--verbose"});
  EXPECT_EQ(check.code, 0);
  EXPECT_THAT(check.out, AllOf(HasSubstr("a.h5 bits"), Not(HasSubstr("intervals"))));
}

TEST(Golden, TheSameRecipeGivesTheSameFile) {
  const TemporaryFolder folder;
  capture(kOperator, folder / "a.h5");
  capture(kOperator, folder / "b.h5");
  EXPECT_EQ(read_file(folder / "a.h5"), read_file(folder / "b.h5"));
}

TEST(Golden, DiffTellsWhatDiffers) {
  const TemporaryFolder folder;
  capture(kOperator, folder / "a.h5");
  capture(kOperator + " seed=2", folder / "b.h5");
  capture(kOperator + " sink=zero", folder / "c.h5");
  const Outcome same = mlacheck({"golden", "diff", folder / "a.h5", folder / "a.h5"});
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.out, IsEmpty());
  const Outcome seed = mlacheck({"golden", "diff", folder / "a.h5", folder / "b.h5"});
  EXPECT_EQ(seed.code, 1);
  EXPECT_THAT(seed.out, AllOf(HasSubstr("recipe: "), HasSubstr("inputs/q: "),
                              HasSubstr("elements differ, first at 0")));
  const Outcome more = mlacheck({"golden", "diff", folder / "a.h5", folder / "c.h5"});
  EXPECT_EQ(more.code, 1);
  EXPECT_THAT(more.out, HasSubstr("only in " + (folder / "c.h5").string() + ": inputs/attn_sink"));
}

TEST(Golden, CheckFindsAWrongBitAndSaysWhere) {
  const TemporaryFolder folder;
  for (const std::string& recipe : {kOperator, kLayer}) {
    const bool layer = recipe == kLayer;
    const std::filesystem::path file = folder / (layer ? "layer.h5" : "operator.h5");
    capture(recipe, file);
    Golden golden = read_golden(file);
    golden.datasets["outputs/reference/lse"].bytes[0] ^= std::byte{1};
    write_golden(file, golden);
    const Outcome outcome = mlacheck({"golden", "check", file});
    EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("FAIL"), HasSubstr("1 of "),
                                   HasSubstr(layer ? "bits.lse" : "bits.outputs/reference/lse"),
                                   HasSubstr("repeat: mlacheck golden check " + file.string())));
  }
}

TEST(Golden, CheckTakesAFolder) {
  const TemporaryFolder folder;
  capture(kOperator, folder / "a.h5");
  capture(kOperator + " seed=2", folder / "b.h5");
  const Outcome outcome = mlacheck({"golden", "check", folder.path()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("a.h5"), HasSubstr("b.h5")));
}

TEST(Golden, ManifestHoldsTheGateToItsFiles) {
  const TemporaryFolder folder;
  capture(kOperator, folder / "a.h5");
  EXPECT_EQ(mlacheck({"golden", "manifest", folder.path()}).code, 0);
  const std::string digest = golden_digest(read_golden(folder / "a.h5"));
  EXPECT_THAT(read_file(folder / "manifest.txt"), HasSubstr(digest + " a.h5\n"));
}

// ---- Of another implementation ----

TEST(Golden, ShowOfACaptureSaysWhatItHolds) {
  const Outcome outcome = mlacheck({"golden", "show", GOLDEN_CAPTURES "/glm5_tiny.h5"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("a capture, which `mlacheck oracle` judges"),
                    HasSubstr("  model = glm5:tiny"), HasSubstr("  seed = "),
                    ContainsRegex("  layer0/fp64/output +f32 +\\[[0-9]+, [0-9]+\\] +[-0-9]"),
                    ContainsRegex("  positions +i64 +\\[[0-9]+\\] +0 1 2 3 \\.\\.\\.")));
}

// ---- Reports ----

// What the program does where no file gets longer than 1,024 bytes, which clang's OpenMP needs, as
// on a full disk.
template <class Run>
Outcome with_small_files(Run run) {
  rlimit limit;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{1024, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the program inherits both
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Outcome outcome = run();
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  return outcome;
}

class GoldenReport : public ::testing::Test {
 protected:
  GoldenReport() { capture(kOperator, folder_ / "a.h5"); }
  Outcome check(const char* option, const std::filesystem::path& report) {
    return mlacheck({"golden", "check", folder_ / "a.h5", option, report});
  }
  // Of a file so often that no report of it is short.
  std::vector<std::string> check_often() const {
    std::vector<std::string> arguments = {"golden", "check"};
    arguments.insert(arguments.end(), 20, folder_ / "a.h5");
    return arguments;
  }
  TemporaryFolder folder_;
};

TEST_F(GoldenReport, ThatCannotBeWrittenIsNoticedBeforeTheRun) {
  for (const char* option : {"--json", "--junit"})
    for (const std::filesystem::path& report : {folder_ / "none/report", folder_.path()}) {
      const Outcome outcome = check(option, report);
      EXPECT_EQ(outcome.code, 3);
      EXPECT_THAT(outcome.err, HasSubstr(report.string()));
      EXPECT_THAT(outcome.out, IsEmpty());
    }
  EXPECT_EQ(content_of(folder_.path()).size(), 1u);
}

TEST_F(GoldenReport, OnAFullDiskIsAnErrorAndLeavesTheOldOne) {
  for (const char* option : {"--json", "--junit"}) {
    std::vector<std::string> arguments = check_often();
    arguments.insert(arguments.end(), {option, folder_ / option});
    EXPECT_EQ(check(option, folder_ / option).code, 0);
    const auto before = content_of(folder_.path());
    const Outcome outcome = with_small_files([&] { return mlacheck(arguments); });
    EXPECT_EQ(outcome.code, 3) << option;
    EXPECT_THAT(outcome.err, HasSubstr((folder_ / option).string()));
    EXPECT_EQ(content_of(folder_.path()), before);
  }
}

// The page alone is too long: what was written before it says so.
TEST_F(GoldenReport, KnowsOfTheOneThatCannotBeWritten) {
  const std::filesystem::path junit = folder_ / "a.xml", page = folder_ / "a.html";
  const Outcome outcome = with_small_files([&] {
    return mlacheck({"golden", "check", folder_ / "a.h5", "--junit", junit, "--html", page});
  });
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(read_file(junit),
              AllOf(HasSubstr("errors=\"1\""), HasSubstr(page.string() + ": cannot write")));
  EXPECT_FALSE(std::filesystem::exists(page));
}

// The failure stays one: neither "harness error" nor a pass.
TEST_F(GoldenReport, OnAFullDiskHidesNoFailure) {
  Golden golden = read_golden(folder_ / "a.h5");
  golden.datasets["outputs/reference/lse"].bytes[0] ^= std::byte{1};
  write_golden(folder_ / "a.h5", golden);
  std::vector<std::string> arguments = check_often();
  arguments.insert(arguments.end(), {"--json", folder_ / "a.json", "--junit", folder_ / "a.xml"});
  const Outcome outcome = with_small_files([&] { return mlacheck(arguments); });
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("FAIL"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr((folder_ / "a.json").string() + ": cannot write"),
                                 HasSubstr((folder_ / "a.xml").string() + ": cannot write")));
}

// A FIFO that nobody reads would be waited for without end.
TEST_F(GoldenReport, TakesNoPlaceOfAPipe) {
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const char* option : {"--json", "--junit", "--html"})
    for (const std::filesystem::path& report : {pipe, std::filesystem::path("/dev/null")}) {
      const Outcome outcome = check(option, report);
      EXPECT_EQ(outcome.code, 3);
      EXPECT_THAT(outcome.err,
                  AllOf(HasSubstr(report.string()), HasSubstr("expected a regular file")));
    }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace mlacheck::testing
