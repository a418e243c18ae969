#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/plugin/library_description.h"
#include "property_tests/laws/law.h"
#include "property_tests/recipe_generator.h"
#include "tools/cli_testing.h"
#include "tools/kernel_checks.h"

namespace mlacheck {
namespace {

const KernelLibrary& library(const char* path) {
  static std::map<std::string, KernelLibrary> libraries;
  const auto found = libraries.find(path);
  if (found != libraries.end()) return found->second;
  return libraries.emplace(path, describe_in_worker(service_by(MLACHECK_PROGRAM, path)))
      .first->second;
}

std::string text_of(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& r : results)
    text += fmt::format("{} {}: {}\n", name_of(r.status), r.name, r.detail);
  return text;
}

Status worst(const std::vector<CheckResult>& results) {
  Status status = Status::pass;
  for (const CheckResult& r : results) status = std::max(status, r.status);
  return status;
}

const Law& law(std::string_view name) {
  return *std::find_if(laws().begin(), laws().end(), [&](const Law& l) { return l.name == name; });
}

// The kernel passes where the recipe alone is judged, and breaks the law.
struct Lawless {
  const char* kernel;
  const char* law;
  const char* recipe;
};

class LawlessKernel : public ::testing::TestWithParam<Lawless> {};

TEST_P(LawlessKernel, BreaksItsLawAlone) {
  const auto& [name, broken, line] = GetParam();
  const KernelLibrary& lawless = library(LAWLESS_KERNELS);
  const mlacheck_kernel& kernel = lawless.kernel(name);
  const Recipe recipe = parse_recipe(line);
  const auto plain = check_kernel(recipe, lawless, kernel);
  EXPECT_EQ(worst(plain), Status::pass) << text_of(plain);
  const auto results = check_law(law(broken), recipe, lawless, kernel);
  EXPECT_GE(worst(results), Status::improbable) << text_of(results);
  for (const CheckResult& r : results) {
    EXPECT_THAT(r.name, ::testing::EndsWith(fmt::format("{} law {}", name, broken)));
    EXPECT_THAT(r.repro, ::testing::HasSubstr("mlacheck run 'mlacheck1 op="));
  }
}

constexpr Lawless kLawless[] = {
    {"expects_ascending", "index_order",
     "mlacheck1 op=sparse_attention t=2 h=2 k=40 n=60 index=identity"},
    {"wraps_the_largest", "absent_values",
     "mlacheck1 op=sparse_attention t=3 h=2 k=40 n=60 absent=scattered fill=census"},
    {"drops_a_tile", "appended_absent",
     "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90 fill=census"},
    {"ignores_length", "past_length",
     "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90 fill=census"},
    {"clamps_pages", "moved_pages",
     "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=128 page=8 gap=1 fill=census"},
    {"favours_row_0", "solo_rows", "mlacheck1 op=sparse_attention t=3 h=2 k=64 n=90 out=f32"},
    {"favours_row_1", "row_order", "mlacheck1 op=sparse_attention t=4 h=2 k=64 n=90 out=f32"},
    {"empty_lse_is_zero", "split_and_merge", "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90"},
    {"saturates_at_448", "value_shift",
     "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90 fill=census"},
    {"masks_by_a_sentinel", "cache_power", "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90"},
    {"drops_odd_elements", "latent_order",
     "mlacheck1 op=sparse_attention t=1 h=1 k=20 n=90 d=40 v=32 fill=needle seed=3"},
    {"multiplies_by_zero", "unread_bytes", "mlacheck1 op=sparse_attention t=1 h=1 k=20 n=90"},
    // The sixth call of a process: judging a recipe takes four.
    {"varies_by_launch", "repeated_launch",
     "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90 out=f32"},
    {"keeps_its_scratch", "reused_scratch", "mlacheck1 op=sparse_attention t=2 h=2 k=64 n=90"},
    {"skips_the_last_head", "head_order",
     "mlacheck1 op=index_scores t=2 h=8 n=90 fill=plateau seed=4"},
    {"narrows_weights", "weight_power", "mlacheck1 op=index_scores t=2 h=8 n=90 fill=plateau"},
    {"misreads_the_tail", "appended_keys", "mlacheck1 op=index_scores t=2 h=8 n=128"},
    {"clamps_blocks", "moved_pages",
     "mlacheck1 op=index_scores t=2 h=8 n=512 page=64 table=shuffled"},
    {"tells_zeros_apart", "equal_scores", "mlacheck1 op=top_k t=2 n=300 k=200 fill=winners"},
    {"narrows_scores", "score_power", "mlacheck1 op=top_k t=2 n=300 k=100 fill=plateau"},
    {"reads_in_fours", "appended_columns", "mlacheck1 op=top_k t=2 n=300 k=100 fill=descending"},
    {"counts_from_the_range", "shifted_range", "mlacheck1 op=top_k t=2 n=300 k=100"},
};

INSTANTIATE_TEST_SUITE_P(Laws, LawlessKernel, ::testing::ValuesIn(kLawless),
                         [](const auto& test) { return std::string(test.param.kernel); });

// Drawn cases of which the law can say something, for each kernel; among so many.
constexpr int kCases = 2;
constexpr std::uint64_t kDrawn = 60;

// Laws are of the operators, so the reference keeps them all.
class LawOf : public ::testing::TestWithParam<std::size_t> {};

TEST_P(LawOf, TheReferenceKeepsIt) {
  const KernelLibrary& reference = library(MLACHECK_REFERENCE_LIBRARY);
  const Law& checked = laws()[GetParam()];
  int all = 0;
  for (const mlacheck_kernel* kernel : reference.kernels()) {
    int passed = 0;
    for (std::uint64_t number = 0; number < kDrawn && passed < kCases; ++number) {
      const Recipe recipe = draw_recipe(static_cast<Operator>(kernel->op), 7, number);
      const auto results = check_law(checked, recipe, reference, *kernel);
      EXPECT_LE(worst(results), Status::skipped) << minimal(recipe) << "\n" << text_of(results);
      for (const CheckResult& r : results) passed += r.status == Status::pass ? 1 : 0;
    }
    all += passed;
  }
  EXPECT_GE(all, kCases);
}

TEST(LawsOfRun, AreReportedAndRepeated) {
  const std::string recipe = "mlacheck1 op=top_k t=2 n=300 k=100 fill=plateau";
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", recipe, "--kernel", LAWLESS_KERNELS};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return testing::mlacheck(arguments);
  };
  const auto with = run({"--laws"}), without = run({});
  EXPECT_EQ(with.code, 1);
  EXPECT_THAT(with.out, ::testing::HasSubstr("narrows_scores law score_power"));
  EXPECT_THAT(with.out, ::testing::HasSubstr(" --laws"));
  EXPECT_THAT(without.out, ::testing::Not(::testing::HasSubstr(" law ")));
}

INSTANTIATE_TEST_SUITE_P(Laws, LawOf, ::testing::Range<std::size_t>(0, laws().size()),
                         [](const auto& test) { return std::string(laws()[test.param].name); });

}  // namespace
}  // namespace mlacheck
