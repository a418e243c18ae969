// Shrinking a planted fault through the C ABI, launch by launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plugin/library_description.h"
#include "property_tests/shrink.h"
#include "tools/kernel_checks.h"

namespace mlacheck {
namespace {

TEST(ShrinkFault, AWrongKeyAmong2048IsFoundInOneLaunchAndLeftAlone) {
  const KernelLibrary library = describe_in_worker(service_by(MLACHECK_PROGRAM, LAWLESS_KERNELS));
  const mlacheck_kernel& kernel = library.kernel("misreads_entry_1234");
  const Recipe census =
      parse_recipe("mlacheck1 op=sparse_attention t=2 h=8 k=2048 n=4096 fill=census seed=5");
  const auto results = check_kernel(census, library, kernel);
  ASSERT_EQ(results.size(), 3u);  // out, lse, max_logit of the one call
  EXPECT_EQ(results[0].status, Status::fail) << results[0].detail;

  const Shrunk shrunk = shrink(census,
                               [&](const Recipe& recipe) {
                                 const auto tried = check_kernel(recipe, library, kernel);
                                 return !tried.empty() && tried[0].status == Status::fail;
                               },
                               {.seconds = 120});
  EXPECT_TRUE(shrunk.minimal) << shrunk.trials << " trials, " << shrunk.seconds << " s";
  const auto& r = std::get<SparseAttentionRecipe>(shrunk.recipe);
  EXPECT_EQ(r.only.print(), "1234");
  EXPECT_EQ(r.topk, 1235);
  EXPECT_EQ(r.tokens, 1);
  EXPECT_EQ(r.heads, 1);
  EXPECT_EQ(r.fill, AttentionFill::census);
  RecordProperty("shrunk", minimal(shrunk.recipe));
  std::cout << minimal(shrunk.recipe) << "\n"
            << shrunk.trials << " trials, " << shrunk.seconds << " s\n";
}

}  // namespace
}  // namespace mlacheck
