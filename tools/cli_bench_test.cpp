// bench, as its users run it. Its figures need a GPU: the tests bench.gpu and, for what it says of
// a kernel that writes nothing, the last one here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plugin/device_memory.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kCase = "mlacheck1 op=sparse_attention h=8 k=64 n=256 q=f16 kv=f16";

std::filesystem::path floors() {
  return std::filesystem::path(MLACHECK_PROGRAM).parent_path() / "libmlacheck_floors.so";
}

TEST(CliBench, RefusesWhatItCannotTime) {
  const Outcome other = mlacheck({"bench", "mlacheck1 op=layer"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("times single operators"));
  EXPECT_EQ(mlacheck({"bench", "mlacheck1 op=sparse_attention k=0"}).code, 2);
  EXPECT_EQ(mlacheck({"bench", kCase, "--tokens", "1,0"}).code, 2);
  EXPECT_EQ(mlacheck({"bench", kCase, "--kernel", "/nonexistent.so"}).code, 3);
  EXPECT_EQ(mlacheck({"bench", kCase, "--json", "/nonexistent/a.json"}).code, 3);
  EXPECT_EQ(mlacheck({"bench", "--batch-invariant", "mlacheck1 op=top_k"}).code, 2);
}

TEST(CliBench, WithoutAGpuIsSkippedByName) {
  if (find_gpu()) GTEST_SKIP() << "there is a GPU here";
  const Outcome outcome = mlacheck({"bench", "--tokens", "1,8", kCase});
  EXPECT_EQ(outcome.code, 77);
  EXPECT_THAT(outcome.out, HasSubstr("SKIPPED bench: there is no GPU here"));
}

TEST(CliBench, FailsAKernelThatIsFastAndWritesNothing) {
  if (!find_gpu()) GTEST_SKIP() << "there is no GPU here";
  if (!std::filesystem::exists(floors())) GTEST_SKIP() << "no nvcc built " << floors();
  const Outcome outcome = mlacheck({"bench", kCase, "--tokens", "3", "--kernel", floors()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("PASS       libmlacheck_gpu.so:sparse_attention_f16"),
                                 HasSubstr("FAIL       libmlacheck_floors.so:row_gather"),
                                 HasSubstr("elements were left as they were")));
}

}  // namespace
}  // namespace mlacheck::testing
