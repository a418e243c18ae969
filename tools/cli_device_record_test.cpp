// golden record and the replay of what it wrote, with the emulated kernels in the GPU's place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/golden_file.h"
#include "tools/cli_testing.h"

namespace mlacheck::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kBits =
    "default mlacheck1 op=sparse_attention t=2 h=3 k=20 n=64 q=f16 kv=f16 page=16 poison=on";
const std::string kHashes = "default mlacheck1 op=sparse_attention t=9 h=8 k=17 n=64 sink=edges";
// More than is replayed in full.
const std::string kRows =
    "batch_invariant mlacheck1 op=sparse_attention t=600 h=1 k=16 n=64 length=random";

class DeviceRecords : public ::testing::Test {
 protected:
  Outcome record(const std::string& lines) {
    folder_.write("recipes.txt", lines);
    return mlacheck({"golden", "record", "--emulated", "--kernel", EMULATED_LIBRARY, "--recipes",
                     folder_ / "recipes.txt", "--out", file_});
  }
  // What `golden check` says of the records once `change` was made to them.
  template <class Change>
  Outcome check_changed(Change&& change) {
    Golden golden = read_golden(file_);
    change(golden);
    write_golden(file_, golden);
    return mlacheck({"golden", "check", file_});
  }

  TemporaryFolder folder_;
  std::string file_ = folder_ / "a.h5";
};

std::byte& byte_of(Golden& golden, const std::string& dataset, std::size_t at) {
  return golden.datasets.at(dataset).bytes.at(at);
}

TEST_F(DeviceRecords, AreReplayed) {
  const Outcome recorded = record("# three\n" + kBits + "\n" + kHashes + "\n" + kRows + "\n");
  ASSERT_EQ(recorded.code, 0) << recorded.err;
  EXPECT_THAT(recorded.out, AllOf(HasSubstr("[1/3] " + kBits), HasSubstr("/3] " + kRows),
                                  HasSubstr("3 records, 347136 outputs of emulator")));
  const Outcome check = mlacheck({"golden", "check", file_});
  EXPECT_EQ(check.code, 0) << check.out << check.err;
  // 20,000,000 products are 71 rows of 278,528.
  EXPECT_THAT(
      check.out,
      HasSubstr("PASS       a.h5 on libmlacheck_emulated.so: 3 records, 82 of 611 rows replayed"));
  const Outcome show = mlacheck({"golden", "show", file_});
  EXPECT_THAT(show.out, AllOf(HasSubstr("gpu = emulator"), HasSubstr("device_code_sha256 = "),
                              HasSubstr("records/0000/out"), HasSubstr("records/0002/hashes")));
}

TEST_F(DeviceRecords, ReplaceThoseOfTheSameLibraryAlone) {
  ASSERT_EQ(record(kBits).code, 0);
  const Outcome others =
      mlacheck({"golden", "record", "--emulated", "--kernel", MLACHECK_REFERENCE_LIBRARY,
                "--recipes", folder_ / "recipes.txt", "--out", file_});
  EXPECT_EQ(others.code, 3);
  EXPECT_THAT(others.err, AllOf(HasSubstr("on emulator, not of '"), HasSubstr("not replaced")));
}

TEST_F(DeviceRecords, ReplaceThoseOfTheSameRecipesAlone) {
  ASSERT_EQ(record(kBits).code, 0);
  EXPECT_EQ(record(kBits).code, 0);
  const Outcome others = record(kBits + "\n" + kHashes);
  EXPECT_EQ(others.code, 3);
  EXPECT_THAT(others.err, HasSubstr("holds 1 records, of other recipes than the 2 here"));
}

TEST_F(DeviceRecords, AFlippedBitFailsAtItsPlace) {
  ASSERT_EQ(record(kBits + "\n" + kHashes).code, 0);
  const Outcome check = check_changed([](Golden& golden) {
    byte_of(golden, "records/0000/out", ((1 * 3 + 2) * 512 + 7) * 2) ^= std::byte{1};
    byte_of(golden, "records/0001/hashes", (8 * 8 + 5) * 8) ^= std::byte{1};
  });
  EXPECT_EQ(check.code, 1) << check.out << check.err;
  EXPECT_THAT(check.out,
              AllOf(HasSubstr("FAIL       a.h5 on libmlacheck_emulated.so: " + kBits),
                    HasSubstr("out: row 1, head 2, column 7: expected bits 0x"),
                    HasSubstr("1 of 3084 outputs differ"),
                    HasSubstr("FAIL       a.h5 on libmlacheck_emulated.so: " + kHashes),
                    HasSubstr("row 8, head 5: hash of out, lse and max_logit: expected bits 0x"),
                    HasSubstr("1 of 72 hashes differ")));
}

TEST_F(DeviceRecords, AreReplayedWholeIfAskedFor) {
  ASSERT_EQ(record(kRows).code, 0);
  const Outcome some = check_changed([](Golden& golden) {
    byte_of(golden, "records/0000/hashes", 3 * 8) ^= std::byte{1};  // row 7 is the first of the 71
  });
  EXPECT_EQ(some.code, 0) << some.out;
  const Outcome all = mlacheck({"golden", "check", "--all-rows", file_});
  EXPECT_EQ(all.code, 1) << all.out;
  EXPECT_THAT(all.out, AllOf(HasSubstr("row 3, head 0"), HasSubstr("1 of 600 hashes differ")));
}

TEST_F(DeviceRecords, WithoutAnOutputProveNothing) {
  ASSERT_EQ(record("default mlacheck1 op=top_k t=0\r\n").code, 0);
  const Outcome check = mlacheck({"golden", "check", file_});
  EXPECT_EQ(check.code, 4) << check.out;
  EXPECT_THAT(check.out, HasSubstr("MISTRUSTED"));
}

TEST_F(DeviceRecords, AreNotMadeWhereTheyCannotBeKept) {
  file_ = "/nonexistent/a.h5";
  const Outcome recorded = record(kBits);
  EXPECT_EQ(recorded.code, 3);
  EXPECT_THAT(recorded.out, Not(HasSubstr("[1/1]")));
}

TEST_F(DeviceRecords, OfOtherInputsAreRefused) {
  ASSERT_EQ(record(kBits).code, 0);
  const Outcome check = check_changed([](Golden& golden) {
    golden.datasets.at("records/0000/out").attributes["input_hash"] = std::string(32, '0');
  });
  EXPECT_EQ(check.code, 3) << check.out;
  EXPECT_THAT(check.err, AllOf(HasSubstr("a.h5: record 0, " + kBits),
                               HasSubstr("was made from inputs 00000000000000000000000000000000, "
                                         "the recipe makes ")));
  EXPECT_THAT(check.out, Not(HasSubstr("PASS")));
}

TEST_F(DeviceRecords, OfAKernelThatIsMissingAreRefused) {
  ASSERT_EQ(record(kBits).code, 0);
  const Outcome check = check_changed([](Golden& golden) {
    golden.datasets.at("records/0000/out").attributes["kernel"] = "other";
  });
  EXPECT_EQ(check.code, 3) << check.out;
  EXPECT_THAT(check.err, AllOf(HasSubstr("other"), HasSubstr("sparse_attention_f16")));
}

TEST_F(DeviceRecords, DamagedAreRefused) {
  ASSERT_EQ(record(kBits).code, 0);
  const std::string good = read_file(file_);
  folder_.write("a.h5", good.substr(0, good.size() - 1));
  const Outcome check = mlacheck({"golden", "check", file_});
  EXPECT_EQ(check.code, 3) << check.out;
  EXPECT_THAT(check.err, HasSubstr(file_ + ": "));
}

TEST_F(DeviceRecords, WantAGpuOrToBeAskedForWithoutOne) {
  folder_.write("recipes.txt", kBits);
  const Outcome outcome = mlacheck({"golden", "record", "--kernel", EMULATED_LIBRARY, "--recipes",
                                    folder_ / "recipes.txt", "--out", file_});
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("runs on host memory"));
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(DeviceRecords, OfBadLinesAreNotMade) {
  const auto refused = [&](const std::string& lines, int code) {
    const Outcome outcome = record(lines);
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_FALSE(std::filesystem::exists(file_));
    return outcome.err;
  };
  EXPECT_THAT(refused("fast mlacheck1 op=sparse_attention", 2),
              AllOf(HasSubstr("recipes.txt: line 1: mode 'fast'")));
  EXPECT_THAT(refused("# nothing\n", 2), HasSubstr("recipes.txt: holds no recipe"));
  EXPECT_THAT(refused("default mlacheck1 op=sparse_attention t=65 h=128", 2),
              HasSubstr("in the mode batch_invariant some rows would do"));
  EXPECT_THAT(refused("default mlacheck1 op=sparse_attention t=1 h=1 k=1 n=1 q=f32", 3),
              AllOf(HasSubstr("no kernel of"), HasSubstr("sparse_attention_f16: q_dtype")));
}

}  // namespace
}  // namespace mlacheck::testing
