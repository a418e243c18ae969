#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tools/cli_testing.h"

// What the tests of golden files share.
namespace mlacheck::testing {

inline const std::string kOperator = "mlacheck1 op=sparse_attention t=1 h=2 k=8 n=16 d=32 v=16";
inline const std::string kLayer = "mlacheck1 op=layer model=glm5:tiny tokens=4";

inline void capture(const std::string& recipe, const std::filesystem::path& out) {
  const Outcome outcome = mlacheck({"golden", "capture", "--recipe", recipe, "--out", out});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::AllOf(::testing::HasSubstr(out),
                                            ::testing::HasSubstr("datasets, content ")));
}

}  // namespace mlacheck::testing
