// The whole gate on a small folder of golden files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WholeGate, ReplaysDeviceRecordsAndSaysThatThereIsNoGpu) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is a GPU here";
  const TemporaryFolder folder;
  const std::filesystem::path records = folder / "device_records";
  std::filesystem::create_directory(records);
  folder.write("recipes.txt", "default mlacheck1 op=sparse_attention t=2 h=3 k=20 n=64");
  ASSERT_EQ(mlacheck({"golden", "capture", "--recipe", "mlacheck1 op=top_k t=1 n=9 k=2", "--out",
                      folder / "a.h5"})
                .code,
            0);
  ASSERT_EQ(mlacheck({"golden", "record", "--emulated", "--kernel", EMULATED_LIBRARY, "--recipes",
                      folder / "recipes.txt", "--out", records / "b.h5"})
                .code,
            0);
  for (const std::filesystem::path& path : {folder.path(), records})
    ASSERT_EQ(mlacheck({"golden", "manifest", path}).code, 0);
  const Outcome outcome =
      mlacheck({"gate", "--golden", folder.path(), "--json", folder / "g.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("PASS       b.h5 on libmlacheck_emulated.so: 1 records, 2 of 2 rows"),
                    HasSubstr("SKIPPED    kernels on a GPU\n           there is no GPU here")));
  const auto found = statuses(folder / "g.json");
  EXPECT_EQ(found.at("mlacheck1 op=sparse_attention t=2 h=16 n=4096 fill=peaky: "
                     "libmlacheck_emulated.so"),
            "PASS");
}

TEST(WholeGate, RefusesDeviceRecordsWithoutAManifest) {
  const TemporaryFolder folder;
  ASSERT_EQ(mlacheck({"golden", "capture", "--recipe", "mlacheck1 op=top_k t=1 n=9 k=2", "--out",
                      folder / "a.h5"})
                .code,
            0);
  ASSERT_EQ(mlacheck({"golden", "manifest", folder.path()}).code, 0);
  std::filesystem::create_directory(folder / "device_records");
  folder.write("device_records/b.h5", "not in a manifest");
  const Outcome outcome = mlacheck({"gate", "--golden", folder.path()});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("device_records/manifest.txt: cannot be read"));
}

}  // namespace
}  // namespace mlacheck::testing
