#include "property_tests/recipe_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "fixtures/temporary_folder.h"

namespace mlacheck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string refusal(const std::filesystem::path& path) {
  try {
    read_batch(path);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// Which would be read for ever.
TEST(RecipeFile, IsARegularFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "set_top_k_pipe.txt").c_str(), 0600), 0);
  for (const std::filesystem::path& path :
       {folder / "set_top_k_pipe.txt", std::filesystem::path("/dev/zero")}) {
    EXPECT_THROW(read_recipes(path), std::runtime_error) << path;
    EXPECT_THROW(RegressionFile{path}, std::runtime_error) << path;
  }
}

Recipe top_k(std::uint64_t seed) {
  TopKRecipe r;
  r.seed = seed;
  return r;
}

TEST(RecipeFile, HoldsARecipeALineAndComments) {
  const TemporaryFolder folder;
  folder.write("r",
               "# why\n\nmlacheck1 op=top_k seed=3  # a comment\r\n  \nmlacheck1 op=top_k k=7");
  const std::vector<Recipe> recipes = read_recipes(folder / "r");
  ASSERT_THAT(recipes, SizeIs(2));
  EXPECT_EQ(recipes[0], top_k(3));
  folder.write("r", "\nmlacheck1 op=top_k k=-1\n");
  EXPECT_THROW(
      {
        try {
          read_recipes(folder / "r");
        } catch (const std::invalid_argument& error) {
          EXPECT_THAT(error.what(), HasSubstr("r:2: recipe: k=-1, expected"));
          throw;
        }
      },
      std::invalid_argument);
  EXPECT_THROW(read_recipes(folder / "none"), std::system_error);
}

TEST(RecipeFile, BatchesAreNamedAfterWhatTheyHold) {
  const TemporaryFolder folder;
  const std::string shape = "mlacheck1 op=top_k t=3 n=100 k=7\n";
  const std::string theme = "mlacheck1 op=top_k fill=nan\n";
  const std::string other = "mlacheck1 op=index_scores\n";
  const auto batch = [&](const std::string& name, const std::string& text) {
    folder.write(name, text);
    return refusal(folder / name);
  };
  EXPECT_EQ(batch("shapes_top_k_odd.txt", shape), "accepted");
  EXPECT_EQ(batch("set_top_k_nan.txt", shape + theme), "accepted");
  EXPECT_EQ(batch("test_all_ci.txt", shape + theme + other), "accepted");
  EXPECT_EQ(batch("test_some_smoke.txt", other), "accepted");
  EXPECT_THAT(batch("mine.txt", shape), HasSubstr("a batch is named shapes_<operator>_<name>.txt"));
  EXPECT_THAT(batch("test_all.txt", shape), HasSubstr("a batch is named"));
  EXPECT_THAT(batch("set_top_k_nan", shape), HasSubstr("a batch is named"));
  EXPECT_THAT(batch("shapes_top_k_nan.txt", theme),
              AllOf(HasSubstr("fill=nan is neither size nor type"),
                    HasSubstr("belongs in set_top_k_<name>.txt")));
  EXPECT_THAT(batch("set_top_k_all.txt", shape + other),
              HasSubstr("belongs in set_index_scores_<name>.txt"));
  EXPECT_THAT(batch("test_none_ci.txt", "# nothing\n"), HasSubstr("there is no recipe in it"));
}

TEST(RegressionFile, AppendsEachRecipeOnce) {
  const TemporaryFolder folder;
  RegressionFile file(folder / "regressions.txt");
  EXPECT_THAT(file.recipes(), SizeIs(0));
  file.add(top_k(3), "FAIL mine:top_k\nwrong");
  file.add(top_k(4), "FAIL mine:top_k");
  file.add(top_k(3), "again");
  EXPECT_EQ(read(folder / "regressions.txt"),
            "mlacheck1 op=top_k seed=3  # FAIL mine:top_k wrong\n"
            "mlacheck1 op=top_k seed=4  # FAIL mine:top_k\n");
  EXPECT_THAT(RegressionFile(folder / "regressions.txt").recipes(), SizeIs(2));
}

TEST(RegressionFile, KeepsALineThatAnEditorLeftOpen) {
  const TemporaryFolder folder;
  folder.write("r.txt", "mlacheck1 op=top_k seed=3");
  RegressionFile(folder / "r.txt").add(top_k(4), "FAIL");
  EXPECT_EQ(read(folder / "r.txt"),
            "mlacheck1 op=top_k seed=3\nmlacheck1 op=top_k seed=4  # FAIL\n");
}

// As the shards of one campaign do.
TEST(RegressionFile, IsSharedByProcesses) {
  const TemporaryFolder folder;
  constexpr int kProcesses = 4, kRecipes = 25;
  for (int process = 0; process < kProcesses; ++process)
    if (fork() == 0) {
      RegressionFile file(folder / "r.txt");
      for (std::uint64_t seed = 0; seed < kRecipes; ++seed) file.add(top_k(seed), "FAIL");
      _exit(0);
    }
  for (int process = 0; process < kProcesses; ++process) wait(nullptr);
  EXPECT_THAT(read_recipes(folder / "r.txt"), SizeIs(kRecipes));
}

TEST(RegressionFile, SaysWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  RegressionFile file(folder / "no/such/folder.txt");
  EXPECT_THROW(file.add(top_k(1), "FAIL"), std::system_error);
}

}  // namespace
}  // namespace mlacheck
