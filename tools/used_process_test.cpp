#include "tools/used_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cuda/plugin/library_description.h"
#include "tools/kernel_checks.h"

namespace mlacheck {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOnlyAfterOthers =
    "; only after other calls in its process, not in a fresh one";

TEST(ToldApart, KeepsWhatGoesWrongInAUsedProcessAlone) {
  const CheckResult pass = {"a", Status::pass, "", "", 0};
  const CheckResult fail = {"a", Status::fail, "worst", "", 0};
  const CheckResult crash = {"", Status::crashed, "killed", "", 0};
  EXPECT_FALSE(goes_wrong({pass, {"b", Status::refused, "", "", 0}}));
  EXPECT_TRUE(goes_wrong({pass, crash}));
  const auto said = [](const std::string& name, Status status, const std::string& detail) {
    return AllOf(Field(&CheckResult::name, name), Field(&CheckResult::status, status),
                 Field(&CheckResult::detail, detail));
  };
  EXPECT_THAT(told_apart({fail}, {pass}),
              ElementsAre(said("a", Status::fail, std::string("worst") + kOnlyAfterOthers)));
  EXPECT_THAT(told_apart({crash}, {pass}),
              ElementsAre(said("a", Status::pass, ""),
                          said("", Status::crashed, std::string("killed") + kOnlyAfterOthers)));
  // As a fresh process shows it.
  EXPECT_THAT(told_apart({fail}, {{"a", Status::fail, "other", "", 0}}),
              ElementsAre(said("a", Status::fail, "other")));
}

KernelLibrary library_of(const std::string& name) {
  return describe_in_worker(
      service_by(MLACHECK_PROGRAM, WRONG_KERNELS "/libwrong_kernel_" + name + ".so"));
}

Recipe four_rows() { return parse_recipe("mlacheck1 op=sparse_attention t=1 h=4 k=64 n=256"); }

// The same case twice in one process.
std::vector<CheckResult> second_check(const std::string& name) {
  const KernelLibrary library = library_of(name);
  const Recipe recipe = four_rows();
  const mlacheck_kernel& kernel = library.kernel(name);
  check_kernel(recipe, library, kernel);
  return check_kernel(recipe, library, kernel);
}

TEST(UsedProcess, IsBlamedForWhatAFreshOneDoesNotShow) {
  const std::vector<CheckResult> crashes = second_check("crashes_later");
  EXPECT_EQ(crashes.back().status, Status::crashed);
  EXPECT_EQ(crashes.back().detail, std::string("killed by signal 6 (Aborted)") + kOnlyAfterOthers);
  EXPECT_EQ(crashes.front().status, Status::pass);

  const std::vector<CheckResult> zeros = second_check("zeros_later");
  EXPECT_EQ(zeros.front().status, Status::fail);
  EXPECT_THAT(zeros.front().detail, AllOf(HasSubstr("worst ["), EndsWith(kOnlyAfterOthers)));
}

TEST(UsedProcess, IsBlamedWhereItOnlyAsks) {
  const std::string name = "crashes_when_asked_later";
  const KernelLibrary library = library_of(name);
  EXPECT_FALSE(goes_wrong(check_kernel(four_rows(), library, library.kernel(name))));
  const CheckResult asked = check_support(four_rows(), library, library.kernel(name));
  EXPECT_EQ(asked.status, Status::crashed);
  EXPECT_EQ(asked.detail, std::string("killed by signal 6 (Aborted)") + kOnlyAfterOthers);
}

TEST(UsedProcess, IsNotBlamedForAKernelThatIsWrongByItself) {
  for (const char* name : {"zeros", "crashes", "zeros_when_batch_invariant"}) {
    const std::vector<CheckResult> results = second_check(name);
    EXPECT_TRUE(goes_wrong(results)) << name;
    for (const CheckResult& result : results)
      EXPECT_THAT(result.detail, Not(HasSubstr("other calls"))) << name;
  }
}

}  // namespace
}  // namespace mlacheck
