// Kernels in Python, through the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kPlugins = MLACHECK_SOURCE_DIR "/tools/plugins/";
const std::string kRecipe = "mlacheck1 op=sparse_attention t=2 h=2 k=8 n=32 page=8 gap=1";

TEST(Python, KernelsPass) {
  for (const char* keys : {"", " sink=random length=edges absent=rows", " fill=census poison=on"}) {
    const Outcome outcome =
        mlacheck({"run", kRecipe + keys, "--kernel", kPlugins + "python_kernel.py"});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("PASS       python_kernel.py:plain sparse_attention.out"));
  }
}

TEST(Python, EmptyTensorsAreTensors) {
  for (const char* sizes : {"t=1 k=0 n=4", "t=1 k=2 n=0", "t=0 k=2 n=4"}) {
    const Outcome outcome =
        mlacheck({"run", std::string("mlacheck1 op=sparse_attention h=1 ") + sizes, "--kernel",
                  kPlugins + "python_kernel.py"});
    EXPECT_THAT(outcome.out, HasSubstr("python_kernel.py:plain sparse_attention.out"));
    EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("FAIL"))) << sizes;
  }
}

TEST(Python, KernelsThatAreWrongAreVerdicts) {
  const TemporaryFolder folder;
  const Outcome outcome = mlacheck({"run", kRecipe, "--kernel", kPlugins + "wrong_kernels.py",
                                    "--timeout", "2", "--json", folder / "a.json"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const auto found = statuses(folder / "a.json");
  const auto status = [&](const std::string& name) {
    const auto at = found.find("wrong_kernels.py:" + name);
    return at == found.end() ? "" : at->second;
  };
  EXPECT_EQ(status("plain sparse_attention.out"), "PASS");
  EXPECT_EQ(status("shifts_lse sparse_attention.out"), "PASS");
  EXPECT_EQ(status("shifts_lse sparse_attention.lse"), "FAIL");
  EXPECT_EQ(status("overruns memory"), "FAIL");
  EXPECT_EQ(status("raises"), "FAIL");
  for (const char* name : {"leaves", "exits", "babbles", "hangs"})
    EXPECT_EQ(status(name), "CRASHED") << name;
  for (const char* said :
       {"ValueError: out of patience", "ended with exit status 0 without an answer",
        "ended with exit status 3 without an answer", "a broken answer: 'garbage'",
        "no answer in 2 s", "wrote past the end of lse"})
    EXPECT_THAT(outcome.out, HasSubstr(said));
}

// Shrinking raises what it raises once more with each try.
TEST(Python, TracebacksAreForARunAlone) {
  const TemporaryFolder folder;
  folder.write(
      "mine.py",
      "import serve_kernels, sys\n"
      "sys.path.append('" +
          kPlugins +
          "')\n"
          "from python_kernel import CONTRACT, CONVENTIONS\n"
          "serve_kernels.kernels.clear()\n"
          "@serve_kernels.kernel('sparse_attention', conventions=CONVENTIONS, contract=CONTRACT)\n"
          "def mine(problem, tensors): raise ValueError('out of patience')\n");
  const Outcome fuzz = mlacheck({"fuzz", "--kernel", folder / "mine.py", "--cases", "2",
                                 "--stop-on-first", "--seconds", "1"});
  EXPECT_EQ(fuzz.code, 1) << fuzz.out << fuzz.err;
  EXPECT_THAT(fuzz.out, HasSubstr("mine.py:6: ValueError: out of patience"));
  EXPECT_THAT(fuzz.err, ::testing::Not(HasSubstr("Traceback")));
  EXPECT_THAT(mlacheck({"run", kRecipe, "--kernel", folder / "mine.py"}).err,
              HasSubstr("Traceback"));
}

TEST(Python, KernelsSayWhatTheyDeclareAndWhatTheyRefuse) {
  const Outcome outcome =
      mlacheck({"kernels", kPlugins + "python_kernel.py", "--for", kRecipe + " kv=f16 q=f16"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("plain (sparse_attention): bf16 rows"), HasSubstr("lse base e"),
                    HasSubstr("refuses: q, cache and out: plain rows of bf16 only")));
}

std::string refusal(const std::string& text) {
  const TemporaryFolder folder;
  folder.write("mine.py", text);
  const Outcome outcome = mlacheck({"kernels", folder / "mine.py"});
  EXPECT_EQ(outcome.code, 3);
  return outcome.err;
}

TEST(Python, FilesThatCannotBeServedAreRefused) {
  EXPECT_THAT(refusal("x = 1 / 0\n"), HasSubstr("mine.py:1: ZeroDivisionError"));
  EXPECT_THAT(refusal("import serve_kernels\n"), HasSubstr("declares 0 kernels"));
  EXPECT_THAT(refusal("import serve_kernels\n"
                      "serve_kernels.kernel('top_k', contract={'tiles': 1})(print)\n"),
              HasSubstr("contract: no field 'tiles', there are: struct_size, tile"));
  EXPECT_THAT(refusal("import serve_kernels\n"
                      "serve_kernels.kernel('sparse_attention', contract={'tile': -1})(print)\n"),
              HasSubstr("contract.tile is -1, allowed are 0 to"));
}

TEST(Python, IsNamedWhereThereIsNone) {
  const Outcome outcome =
      mlacheck({"kernels", kPlugins + "python_kernel.py"}, {{"PATH", "/nowhere"}});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("cannot start the worker program python3: No such file"));
}

TEST(Python, TorchKernelsPass) {
  if (std::system("python3 -c 'import torch' 2>/dev/null") != 0)
    GTEST_SKIP() << "python3 has no torch";
  for (const char* keys : {"", " q=f16 kv=f16 sink=random length=edges absent=rows"}) {
    const Outcome outcome =
        mlacheck({"run", kRecipe + keys, "--kernel", kPlugins + "torch_kernel.py"});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("PASS       torch_kernel.py:torch_attention"));
  }
}

}  // namespace
}  // namespace mlacheck::testing
