// The museum's library through the C ABI, in worker processes of the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <set>

#include "cuda/plugin/library_description.h"
#include "property_tests/museum/search.h"
#include "property_tests/museum/stored_recipes.h"

namespace mlacheck::museum {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

KernelLibrary load(int seconds) {
  omp_set_num_threads(1);  // small cases, and other tests beside this one
  return describe_in_worker(
      service_by(MLACHECK_PROGRAM, MUSEUM_LIBRARY, std::chrono::seconds(seconds)));
}
Museum open() {
  return Museum([] { return load(60); });
}

TEST(Museum, HasAFaultForEachKindAndSaysWhereItComesFrom) {
  const KernelLibrary library = load(60);
  std::set<std::int32_t> honest;
  std::int64_t faults = 0;
  for (const mlacheck_kernel* kernel : library.kernels()) {
    const std::string_view name = kernel->name;
    if (name.starts_with(kHonest)) {
      honest.insert(kernel->op);
      continue;
    }
    ++faults;
    EXPECT_THAT(kernel->description, AllOf(HasSubstr(" ["), HasSubstr("]"))) << name;
  }
  EXPECT_EQ(honest.size(), 5u) << "a kernel without fault for each operator";
  EXPECT_GE(faults, 60);
}

TEST(Museum, IsCaughtByItsStoredRecipes) {
  const auto results = replay(read_stored_recipes(MUSEUM_RECIPES), load);
  for (const CheckResult& result : results)
    EXPECT_EQ(result.status, Status::pass) << result.name << ": " << result.detail;
}

// The other side: a recipe that does not show the fault, another check than was stored, another
// operator's recipe, no recipe.
TEST(Museum, MissesAFaultThatItsRecipeDoesNotShow) {
  const auto results = replay(
      parse_stored_recipes(
          "page_gap_ignored: sparse_attention.out: mlacheck1 op=sparse_attention t=1 h=1 k=8 n=9\n"
          "lse_base_2: sparse_attention.out: mlacheck1 op=sparse_attention t=1 h=1 k=8 n=9\n"
          "relu_missing: call: mlacheck1 op=top_k",
          "test"),
      load);
  const auto fails = [](const char* name, const char* detail) {
    return AllOf(Field(&CheckResult::name, name), Field(&CheckResult::status, Status::fail),
                 Field(&CheckResult::detail, HasSubstr(detail)));
  };
  EXPECT_THAT(results,
              AllOf(Contains(fails("museum: page_gap_ignored", "to give it away, got PASS by")),
                    Contains(fails("museum: lse_base_2",
                                   "expected sparse_attention.out to give it away, got FAIL by "
                                   "sparse_attention.lse")),
                    Contains(fails("museum: relu_missing", "the recipe is not for this kernel")),
                    Contains(fails("museum: unsorted", "has no stored recipe")),
                    Contains(fails("museum", "0 of "))));
}

TEST(Museum, StoredRecipesAreReadStrictly) {
  EXPECT_EQ(parse_stored_recipes("# one\n\na: b c: mlacheck1 op=top_k\n", "f")[0].check, "b c");
  for (const auto& [text, message] :
       {std::pair{"\nname\n", "f:2: 'name', expected 'fault: check: recipe'"},
        std::pair{"a: b: mlacheck1 op=none", "f:1: recipe: op=none"}})
    try {
      parse_stored_recipes(text, "f");
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
}

CampaignPlan plan_of(std::int64_t cases) {
  CampaignPlan plan;
  plan.cases = cases;
  return plan;
}

bool go_on(std::int64_t) { return true; }

class HonestKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(HonestKernels, PassWhateverIsDrawn) {
  Museum museum = open();
  const SearchResult result = search(museum, GetParam(), plan_of(40), go_on);
  EXPECT_EQ(result.cases, 40);
  EXPECT_FALSE(result.failure) << result.failure->original.name << "\n"
                               << result.failure->original.detail << "\n"
                               << result.failure->original.repro;
}
INSTANTIATE_TEST_SUITE_P(OfEachOperator, HonestKernels,
                         ::testing::Values("honest_attention", "honest_attention_bf16_weights",
                                           "honest_index_scores", "honest_index_select",
                                           "honest_top_k", "honest_map_slots"));

TEST(Search, CatchesAFaultAndShrinksItsRecipe) {
  Museum museum = open();
  const SearchResult result = search(museum, "page_gap_ignored", plan_of(200), go_on);
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->original.status, Status::fail);
  const std::string shrunk = minimal(result.failure->shrunk.recipe);
  EXPECT_THAT(shrunk, HasSubstr("gap=1"));
  const auto results = museum.check("page_gap_ignored", parse_recipe(shrunk));
  EXPECT_TRUE(std::ranges::any_of(results, [&](const CheckResult& again) {
    return again.status == Status::fail && again.name == result.failure->original.name;
  }));
}

TEST(Search, CountsItsCasesAndEndsWhenToldTo) {
  Museum museum = open();
  const SearchResult result =
      search(museum, "honest_map_slots", plan_of(40), [](std::int64_t cases) { return cases < 3; });
  EXPECT_EQ(result.cases, 3);
  EXPECT_FALSE(result.failure);
}

// What each rule is for it does see, and what it is known to miss it misses.
TEST(FlatRules, SeeZerosAndMissALostKey) {
  const Museum museum = open();
  using enum FlatVerdict;
  const Recipe flat = parse_recipe("mlacheck1 op=sparse_attention t=2 h=4 k=512 n=1024");
  EXPECT_THAT(museum.flat("honest_attention", flat),
              ElementsAre(passes, passes, passes, passes, not_applicable));
  EXPECT_THAT(museum.flat("computes_nothing", flat),
              ElementsAre(catches, catches, catches, catches, not_applicable));
  EXPECT_THAT(museum.flat("full_row_loses_last", flat),
              ElementsAre(passes, passes, passes, _, not_applicable));
  EXPECT_THAT(museum.flat("lse_base_2", flat),
              ElementsAre(catches, catches, passes, passes, not_applicable));
  const Recipe peaky = parse_recipe("mlacheck1 op=sparse_attention t=2 h=4 k=64 n=99 fill=peaky");
  EXPECT_THAT(museum.flat("rope_dropped", peaky),
              ElementsAre(catches, catches, catches, catches, not_applicable));

  const Recipe scores = parse_recipe("mlacheck1 op=index_scores t=2 h=4 n=100");
  EXPECT_THAT(museum.flat("honest_index_scores", scores),
              ElementsAre(passes, passes, passes, not_applicable, not_applicable));
  EXPECT_THAT(museum.flat("relu_missing", scores),
              ElementsAre(catches, catches, catches, not_applicable, not_applicable));

  const auto by_sorted_scores = [](FlatVerdict verdict) {
    return ElementsAre(not_applicable, not_applicable, not_applicable, not_applicable, verdict);
  };
  const Recipe ties = parse_recipe("mlacheck1 op=top_k t=1 n=4000 k=512 fill=constant");
  EXPECT_THAT(museum.flat("honest_top_k", ties), by_sorted_scores(passes));
  EXPECT_THAT(museum.flat("tie_overflow_1024", ties), by_sorted_scores(passes));
  EXPECT_THAT(museum.flat("ties_to_last", ties), by_sorted_scores(passes));
  const Recipe more = parse_recipe("mlacheck1 op=top_k t=1 n=4000 k=2000 fill=constant");
  EXPECT_THAT(museum.flat("tie_overflow_1024", more), by_sorted_scores(catches));
}

}  // namespace
}  // namespace mlacheck::museum
