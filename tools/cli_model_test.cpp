// golden capture --model on a small model that the test makes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "fixtures/model/model_testing.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Model : public ::testing::Test {
 protected:
  Model() { folder_.write("tokens", "3 14 15 9\n26 5 3\t49 0 8\n"); }

  void write_safetensors_model() const {
    write_synthetic(small_model(), SyntheticFormat::bf16, folder_ / "model");
  }
  Arguments capture_arguments(const std::string& out = "golden.h5",
                              const std::string& model = "model",
                              const std::string& tokens = "tokens") const {
    return {"golden",         "capture",  "--model", folder_ / model, "--tokens",
            folder_ / tokens, "--layers", "0,3",     "--out",         folder_ / out};
  }
  Outcome check(const std::string& model) const {
    return mlacheck({"golden", "check", folder_ / "golden.h5", "--checkpoint", folder_ / model});
  }
  // Kills a capture after `delay`; whether it got to its end.
  bool capture_and_kill(std::chrono::microseconds delay) const {
    const Arguments arguments = capture_arguments();
    const pid_t child = fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stdout) == nullptr ||
          std::freopen("/dev/null", "w", stderr) == nullptr)
        _exit(125);
      become_mlacheck(arguments, {});
    }
    std::this_thread::sleep_for(delay);
    kill(child, SIGKILL);
    return wait_for(child) == 0;
  }
  void expect_refused(const Arguments& arguments, const std::string& said) const {
    const Outcome outcome = mlacheck(arguments);
    EXPECT_THAT(outcome.code, AnyOf(2, 3)) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5"));
  }

  TemporaryFolder folder_;
};

TEST_F(Model, IsCapturedAndChecked) {
  write_safetensors_model();
  const Outcome outcome = mlacheck(capture_arguments());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("10 tokens: 1 of 4 layers"), HasSubstr("4 of 4 layers"),
                                 HasSubstr("MB/s"), HasSubstr("left")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5.capture"));
  const Outcome checked = check("model");
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, AllOf(HasSubstr("layer 0 bits"), HasSubstr("layer 3 bits"),
                                 HasSubstr("layer 0 oracle")));
}

TEST_F(Model, OfGgufIsCapturedAndChecked) {
  write_synthetic(small_model(), SyntheticFormat::gguf, folder_ / "gguf");
  EXPECT_EQ(mlacheck(capture_arguments("golden.h5", "gguf/model-00002-of-00004.gguf")).code, 0);
  const Outcome checked = check("gguf");
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

TEST_F(Model, ShowsHowFarItIsOnATerminal) {
  write_safetensors_model();
  const Outcome outcome = mlacheck_on_terminal(capture_arguments());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\r10 tokens: "), HasSubstr("4 of 4 layers")));
}

TEST_F(Model, KilledAtAnyMomentGivesTheSameFile) {
  write_safetensors_model();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(mlacheck(capture_arguments("whole.h5")).code, 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  std::minstd_rand random(1);
  bool saw_folder = false;
  for (int i = 0; i < 10; ++i) {
    if (capture_and_kill(whole * static_cast<int>(random() % 100) / 100))
      std::filesystem::remove(folder_ / "golden.h5");  // once more from the beginning
    saw_folder |= std::filesystem::exists(folder_ / "golden.h5.capture/state");
  }
  EXPECT_TRUE(saw_folder);
  ASSERT_EQ(mlacheck(capture_arguments()).code, 0);
  EXPECT_EQ(read_file(folder_ / "golden.h5"), read_file(folder_ / "whole.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5.capture"));
}

TEST_F(Model, TokensMayBeAJsonList) {
  write_safetensors_model();
  std::filesystem::create_directory(folder_ / "json");
  folder_.write("json/tokens", "[3, 14, 15, 9, 26, 5, 3, 49, 0, 8]");
  ASSERT_EQ(mlacheck(capture_arguments("a.h5")).code, 0);
  ASSERT_EQ(mlacheck(capture_arguments("b.h5", "model", "json/tokens")).code, 0);
  const Outcome outcome = mlacheck({"golden", "diff", folder_ / "a.h5", folder_ / "b.h5"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("source"), Not(HasSubstr("elements differ"))));
}

TEST_F(Model, TokensMayComeThroughAPipe) {
  write_safetensors_model();
  ASSERT_EQ(mlacheck(capture_arguments("a.h5")).code, 0);
  std::filesystem::create_directory(folder_ / "pipe");
  const std::string pipe = folder_ / "pipe/tokens";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << read_file(folder_ / "tokens"); });
  EXPECT_EQ(mlacheck(capture_arguments("b.h5", "model", "pipe/tokens")).code, 0);
  writer.join();
  EXPECT_EQ(read_file(folder_ / "b.h5"), read_file(folder_ / "a.h5"));
}

// Opened before the tokens are read, which come when it has been cut short.
TEST_F(Model, NamesAFileThatIsCutShortWhileItIsRead) {
  write_synthetic(small_model(), SyntheticFormat::gguf, folder_ / "gguf");
  const std::filesystem::path part = folder_ / "gguf/model-00002-of-00004.gguf";
  const auto size = std::filesystem::file_size(part);
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream tokens(pipe);
    std::filesystem::resize_file(part, 9000);
    tokens << "3 14 15";
  });
  const Outcome outcome = mlacheck(capture_arguments("golden.h5", "gguf", "pipe"));
  writer.join();
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(fmt::format("mlacheck: {}: was cut short while it was read: "
                                                 "expected {} bytes, got 9000\n",
                                                 part.string(), size)));
}

TEST_F(Model, TokensMayBeAListOnTheCommandLine) {
  write_safetensors_model();
  Arguments listed = capture_arguments("b.h5");
  listed[5] = "3,14,15,9,26,5,3,49,0,8";
  ASSERT_EQ(mlacheck(listed).code, 0);
  ASSERT_EQ(mlacheck(capture_arguments("a.h5")).code, 0);
  const Outcome diff = mlacheck({"golden", "diff", folder_ / "a.h5", folder_ / "b.h5"});
  EXPECT_THAT(diff.out, AllOf(HasSubstr("10 tokens: tokens, sha256 "),
                              HasSubstr("10 tokens: given, sha256 "), Not(HasSubstr("/q"))));
  for (const char* wrong : {"3,,4", "3;4", "none.txt"}) {
    listed[5] = wrong;
    listed.back() = folder_ / "golden.h5";
    expect_refused(listed, std::string(wrong) == "3,,4"
                               ? "--tokens 3,,4: expected ids separated by commas"
                               : "expected ids as in 1,2,3, or a file");
  }
}

// Before any layer is run.
TEST_F(Model, TakesNoPlaceOfAnotherGolden) {
  write_safetensors_model();
  ASSERT_EQ(mlacheck(capture_arguments()).code, 0);
  const std::string before = read_file(folder_ / "golden.h5");
  Arguments other = capture_arguments();
  other[7] = "1";
  const Outcome outcome = mlacheck(other);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("golden.h5: holds another golden"), Not(HasSubstr("MB/s"))));
  EXPECT_EQ(mlacheck(capture_arguments()).code, 0);  // the same one, anew
  // A model of other weights alone.
  std::filesystem::remove_all(folder_ / "model");
  write_synthetic(small_model(6), SyntheticFormat::bf16, folder_ / "model");
  const Outcome weights = mlacheck(capture_arguments());
  EXPECT_EQ(weights.code, 3);
  EXPECT_THAT(weights.err,
              AllOf(HasSubstr("another golden: layer0.weights_sha256."), Not(HasSubstr("MB/s"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5.capture"));
  EXPECT_EQ(read_file(folder_ / "golden.h5"), before);
}

// A damaged model, and then the mended one.
TEST_F(Model, IsNotBoundByARunThatFinishedNoLayer) {
  write_safetensors_model();
  const std::string first = "model/model-00001-of-00004.safetensors";
  const std::string good = read_file(folder_ / first);
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), sizeof header);
  folder_.write(first, std::string(good).replace(sizeof header + header, 64, 64, '\xff'));
  expect_refused(capture_arguments(), "expected finite values");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5.capture"));
  // Killed before its end, it would have left this.
  std::filesystem::create_directories(folder_ / "golden.h5.capture");
  folder_.write("golden.h5.capture/key", "mlacheck capture 1\nfile: another\n");
  folder_.write("golden.h5.capture/layer0.h5", "");
  folder_.write(first, good);
  const Outcome outcome = mlacheck(capture_arguments());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Model, RefusesWhatItCannotRun) {
  write_safetensors_model();
  Arguments arguments = capture_arguments();
  arguments[7] = "0,9";
  expect_refused(arguments, "layers 9: the model has layers 0 to 3");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "golden.h5.capture"));
  expect_refused(capture_arguments("golden.h5", "model", "none"), "none: cannot be read");
  folder_.write("bad", "1 2 x");
  expect_refused(capture_arguments("golden.h5", "model", "bad"),
                 "token 2: expected a whole number");
  folder_.write("bad", "[1, -2]");
  expect_refused(capture_arguments("golden.h5", "model", "bad"),
                 "token 1: expected a whole number");
  folder_.write("bad", "[1, 2");
  expect_refused(capture_arguments("golden.h5", "model", "bad"), "not a valid JSON list");
  folder_.write("bad", " \n");
  expect_refused(capture_arguments("golden.h5", "model", "bad"), "holds no token");
  std::filesystem::create_directory(folder_ / "folder");
  expect_refused(capture_arguments("golden.h5", "model", "folder"), "folder: is a folder");
  std::filesystem::create_symlink("/dev/zero", folder_ / "device");
  expect_refused(capture_arguments("golden.h5", "model", "device"), "device: is a device");
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  const Outcome outcome = mlacheck(capture_arguments("fifo"));
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("expected a regular file"), Not(HasSubstr("layers"))));
  folder_.write("bad", "1 50");
  expect_refused(capture_arguments("golden.h5", "model", "bad"), "tokens[1]: expected 0 to 49");
  arguments.resize(6);
  arguments.insert(arguments.end(), {"--out", folder_ / "golden.h5"});
  expect_refused(arguments, "--model: needs --layers and --tokens");
  expect_refused({"golden", "capture", "--recipe", "mlacheck1 op=top_k", "--layers", "0", "--out",
                  folder_ / "golden.h5"},
                 "--checkpoint, --model or --synthetic");
}

TEST_F(Model, RefusesToGoOnWithOtherInputs) {
  write_safetensors_model();
  std::filesystem::create_directories(folder_ / "golden.h5.capture");
  folder_.write("golden.h5.capture/key", "mlacheck capture 1\nfile: another\n");
  folder_.write("golden.h5.capture/state", "");
  expect_refused(capture_arguments(), "was begun with other inputs");
}

// ---- Without a model at hand ----

TEST_F(Model, OfMakeIsCapturedAndCheckedWithNothingElse) {
  ASSERT_EQ(
      mlacheck({"golden", "capture", "--synthetic", "glm5:tiny", "--out", folder_ / "golden.h5"})
          .code,
      0);
  const Outcome checked = mlacheck({"golden", "check", folder_ / "golden.h5"});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("layer 2 bits"));
  std::filesystem::remove(folder_ / "golden.h5");
  expect_refused({"golden", "capture", "--synthetic", "glm6", "--out", folder_ / "x.h5"}, "glm6");
}

TEST_F(Model, OfMakeIsWrittenAsFilesThatAreCaptured) {
  for (const char* format : {"bf16", "fp8", "gguf"}) {
    const std::string folder = folder_ / format;
    ASSERT_EQ(
        mlacheck({"golden", "synthesize", "glm52:tiny", "--format", format, "--out", folder}).code,
        0);
    std::filesystem::remove(folder_ / "golden.h5");
    const Outcome outcome =
        mlacheck({"golden", "capture", "--model", folder, "--tokens", folder_ / "tokens",
                  "--layers", "2", "--out", folder_ / "golden.h5"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(mlacheck({"golden", "check", folder_ / "golden.h5", "--checkpoint", folder}).code, 0);
  }
  std::filesystem::remove(folder_ / "golden.h5");
  std::filesystem::remove(folder_ / "gguf/model-00002-of-00003.gguf");
  for (const Arguments& source :
       {Arguments{"--checkpoint", folder_ / "gguf", "--inputs", "hash:4:1"},
        Arguments{"--model", folder_ / "gguf", "--tokens", folder_ / "tokens"}}) {
    Arguments arguments = {"golden", "capture", "--layers", "2", "--out", folder_ / "golden.h5"};
    arguments.insert(arguments.end(), source.begin(), source.end());
    expect_refused(arguments, "model-00002-of-00003.gguf: is missing: one of 3 files of the model");
  }
  expect_refused({"golden", "synthesize", "dsv32:tiny", "--format", "gguf", "--out", folder_ / "d"},
                 "dsv32:tiny");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
}

}  // namespace
}  // namespace mlacheck::testing
