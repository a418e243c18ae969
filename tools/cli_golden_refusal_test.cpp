// Golden files that are not what they should be, and what golden capture refuses or leaves when it
// is killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "fixtures/golden_file.h"
#include "tools/cli_golden_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- Files that are not what they should be ----

class DamagedGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    capture(kOperator, folder_ / "good.h5");
    good_ = read_file(folder_ / "good.h5");
  }

  // Every command that reads refuses the path, names it, gives the reason and touches nothing.
  void expect_refused(const std::filesystem::path& path, const std::string& reason) {
    const std::string good = folder_ / "good.h5";
    const auto before = content_of(folder_.path());
    for (const Arguments& command :
         {Arguments{"golden", "check", path}, Arguments{"golden", "show", path},
          Arguments{"golden", "diff", path, good}, Arguments{"golden", "diff", good, path}}) {
      SCOPED_TRACE(command[1]);
      const Outcome outcome = mlacheck(command);
      EXPECT_EQ(outcome.code, 3) << outcome.out;
      EXPECT_THAT(outcome.err, AllOf(HasSubstr(path.string()), HasSubstr(reason)));
      EXPECT_THAT(outcome.out, Not(HasSubstr("PASS")));
    }
    EXPECT_EQ(content_of(folder_.path()), before);
  }
  std::filesystem::path write(const std::string& content) {
    folder_.write("bad.h5", content);
    return folder_ / "bad.h5";
  }

  TemporaryFolder folder_;
  std::string good_;
};

TEST_F(DamagedGolden, Missing) { expect_refused(folder_ / "none.h5", "No such file"); }

TEST_F(DamagedGolden, Folder) {
  std::filesystem::create_directory(folder_ / "folder.h5");
  for (const char* command : {"show", "check"}) {
    const Outcome outcome = mlacheck({"golden", command, folder_ / "folder.h5"});
    EXPECT_EQ(outcome.code, 3) << command;
    EXPECT_THAT(outcome.err, HasSubstr("folder.h5"));
  }
}

TEST_F(DamagedGolden, Empty) { expect_refused(write(""), "an empty file"); }

TEST_F(DamagedGolden, Text) { expect_refused(write("not a golden file\n"), "not an HDF5 file"); }

TEST_F(DamagedGolden, Truncated) {
  for (const std::size_t bytes : {std::size_t{10}, good_.size() / 2, good_.size() - 1})
    expect_refused(write(good_.substr(0, bytes)), "bad.h5: ");
}

// A flip that no reader could notice may pass, and then all is as it was.
TEST_F(DamagedGolden, FlippedByte) {
  std::size_t refused = 0;
  constexpr std::size_t kFlips = 24;
  for (std::size_t i = 0; i < kFlips; ++i) {
    std::string bytes = good_;
    bytes[i * bytes.size() / kFlips] ^= 0x10;
    // HDF5 leaks memory when it refuses some of these; a sanitizer would make that the exit code.
    const Outcome outcome =
        mlacheck({"golden", "check", write(bytes)}, {{"ASAN_OPTIONS", "detect_leaks=0"}});
    if (outcome.code == 0) continue;
    EXPECT_EQ(outcome.code, 3) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr((folder_ / "bad.h5").string() + ": "));
    ++refused;
  }
  EXPECT_GT(refused, kFlips / 2);
}

TEST_F(DamagedGolden, LaterFormat) {
  std::string later = good_;
  later[8] = 4;
  expect_refused(write(later), "superblock version 4");
}

TEST_F(DamagedGolden, LaterSchema) {
  const std::filesystem::path path = write(good_);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t attribute = H5Aopen(file, "schema_version", H5P_DEFAULT);
  const std::int64_t later = kGoldenSchemaVersion + 1;
  EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_INT64, &later), 0);
  H5Aclose(attribute);
  H5Fclose(file);
  expect_refused(path, "newer than 1");
}

// Memory for its weights that no machine has; the files after it are checked, the report is
// written.
TEST(Golden, CheckGoesOnAfterAFileThatIsTooLarge) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the program where memory is refused";
#endif
  const TemporaryFolder folder;
  capture(kLayer, folder / "a.h5");
  capture(kOperator, folder / "b.h5");
  Golden golden = read_golden(folder / "a.h5");
  golden.attributes["model"] = std::string("config");
  golden.attributes["config_json"] =
      std::string(R"({"model_type": "glm_moe_dsa", "hidden_size": 1, "num_hidden_layers": 4,)"
                  R"( "num_attention_heads": 16777216, "q_lora_rank": 16777216, "index_topk": 3,)"
                  R"( "n_routed_experts": 8})");
  golden.datasets["inputs/hidden_states"] = make_dataset({4, 1}, std::vector<float>(4));
  write_golden(folder / "a.h5", golden);
  const std::filesystem::path json = folder / "report.json";
  const Outcome outcome =
      mlacheck({"golden", "check", folder / "a.h5", folder / "b.h5", "--json", json});
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr((folder / "a.h5").string() + ": "));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("PASS       b.h5 bits"), HasSubstr("1 errors")));
  EXPECT_EQ(nlohmann::json::parse(read_file(json)).at("errors").size(), 1u);
}

// ---- What a golden says that cannot be ----

class ContradictoryGolden : public ::testing::Test {
 protected:
  ContradictoryGolden() {
    capture(kLayer, folder_ / "a.h5");
    golden_ = read_golden(folder_ / "a.h5");
  }
  void expect_refused(const std::string& reason) {
    write_golden(folder_ / "a.h5", golden_);
    const Outcome outcome = mlacheck({"golden", "check", folder_ / "a.h5"});
    EXPECT_EQ(outcome.code, 3) << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("a.h5"), HasSubstr(reason)));
  }
  TemporaryFolder folder_;
  Golden golden_;
};

TEST_F(ContradictoryGolden, MissingDataset) {
  golden_.datasets.erase("inputs/positions");
  expect_refused("inputs/positions");
}

TEST_F(ContradictoryGolden, MissingAttribute) {
  golden_.attributes.erase("kind");
  expect_refused("kind");
}

TEST_F(ContradictoryGolden, PositionsBeyondInt32) {
  golden_.datasets["inputs/positions"] =
      make_dataset<std::int64_t>({4}, std::vector<std::int64_t>{0, 1, 2, std::int64_t{1} << 31});
  expect_refused("positions[3]");
}

// ---- What capture refuses ----

TEST(GoldenCapture, LeavesNothingBehindWhenItFails) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      mlacheck({"golden", "capture", "--recipe", "mlacheck1 op=zebra", "--out", folder / "a.h5"})
          .code,
      2);
  EXPECT_EQ(
      mlacheck({"golden", "capture", "--recording", folder / "none.h5", "--out", folder / "a.h5"})
          .code,
      3);
  EXPECT_THAT(content_of(folder.path()), IsEmpty());
  for (const std::filesystem::path& out : {folder / "none/a.h5", folder.path()}) {
    const Outcome outcome = mlacheck({"golden", "capture", "--recipe", kOperator, "--out", out});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, HasSubstr(out.string()));
  }
  EXPECT_THAT(content_of(folder.path()), IsEmpty());
}

TEST(GoldenCapture, RefusesAnOptionThatItsSourceCannotUse) {
  const TemporaryFolder folder;
  const Arguments recipe = {"--recipe", kOperator}, checkpoint = {"--checkpoint", folder.path()},
                  recording = {"--recording", folder / "none.h5"};
  const auto expect_usage = [&](const Arguments& source, const std::string& option,
                                const std::string& value) {
    Arguments arguments = {"golden", "capture", "--out", folder / "a.h5", option, value};
    arguments.insert(arguments.end(), source.begin(), source.end());
    const Outcome outcome = mlacheck(arguments);
    EXPECT_EQ(outcome.code, 2) << source[0] << " " << option;
    EXPECT_THAT(outcome.err, HasSubstr(option + " requires "));
    EXPECT_THAT(content_of(folder.path()), IsEmpty());
  };
  for (const Arguments& source : {recipe, recording}) {
    expect_usage(source, "--inputs", "hash:4:1");
    expect_usage(source, "--layers", "0");
    expect_usage(source, "--profile", "hf");
    expect_usage(source, "--numerics", "bf16");
    expect_usage(source, "--topk", "2");
  }
  for (const Arguments& source : {recipe, checkpoint}) expect_usage(source, "--dtype", "bf16");
}

// One file for another golden would be lost without a word; the same one is made anew.
TEST(GoldenCapture, TakesNoPlaceOfAnotherGolden) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "a.h5", other = folder / "other.h5";
  capture(kOperator, file);
  const std::string before = read_file(file);
  for (const std::string& recipe : {kOperator + " seed=2", kLayer}) {
    const Outcome outcome = mlacheck({"golden", "capture", "--recipe", recipe, "--out", file});
    EXPECT_EQ(outcome.code, 3);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(file.string() + ": holds another golden"),
                                   HasSubstr("not replaced; remove it, or name another file")));
  }
  EXPECT_EQ(read_file(file), before);
  Golden golden = read_golden(file);
  golden.datasets["outputs/reference/lse"].bytes[0] ^= std::byte{1};
  write_golden(file, golden);
  capture(kOperator, file);
  EXPECT_EQ(read_file(file), before);

  folder.write("other.h5", before.substr(0, before.size() / 2));
  const Outcome damaged = mlacheck({"golden", "capture", "--recipe", kOperator, "--out", other});
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.err, HasSubstr("holds no golden that can be read"));
}

TEST(GoldenCapture, TakesNoPlaceOfAPipe) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Outcome outcome = mlacheck({"golden", "capture", "--recipe", kOperator, "--out", pipe});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(pipe.string()), HasSubstr("expected a regular file")));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

// Kills captures at moments spread over the time that one takes, and a little beyond.
TEST(GoldenCapture, ThatIsKilledLeavesACompleteFileOrNone) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "a.h5";
  const Arguments command = {"golden", "capture", "--recipe", kLayer, "--out", file};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(mlacheck(command).code, 0);
  const auto whole = std::chrono::steady_clock::now() - start;
  const std::string complete = read_file(file);
  std::filesystem::remove(file);

  constexpr int kKills = 20;
  int killed = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(125);
      become_mlacheck(command, {});
    }
    std::this_thread::sleep_for(whole * i / (kKills - 4));
    kill(child, SIGKILL);
    killed += wait_for(child) == 128 + SIGKILL ? 1 : 0;
    if (std::filesystem::exists(file)) {
      EXPECT_EQ(read_file(file), complete);
      std::filesystem::remove(file);
    }
  }
  EXPECT_GT(killed, kKills / 4);
  // And the next one is not in the way of what they left.
  EXPECT_EQ(mlacheck(command).code, 0);
  EXPECT_EQ(read_file(file), complete);
  EXPECT_EQ(content_of(folder.path()).size(), 1u);
}

}  // namespace
}  // namespace mlacheck::testing
