#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cuda/kernels/sparse_attention_testing.h"

// The kernels with one barrier, wait, count or copy changed, each in turn: the emulator must
// notice.
namespace mlacheck::kernels::testing {
namespace {

using emulator::CallSite;
using emulator::Mutation;
using emulator::Primitive;

std::string place_of(const CallSite& site) {
  return std::filesystem::path(site.file).filename().string() + ":" + std::to_string(site.line) +
         " " + std::string(name_of(site.primitive));
}

// Rows for one block: 20 tiles in two chunks, so that every ring wraps around and a chunk is
// folded; and rows of one tile, which hide nothing behind a tile's other barriers.
Attention problem_for(int group_heads) {
  Attention attention(6, group_heads, 320, 400);
  attention.topk_length = {320, 10, 0, 16, 9, 320};
  return attention;
}

SparseAttentionPlan plan_for(const Attention& attention, int group_heads, bool split) {
  SparseAttentionPlan plan = with_chunks(attention, group_heads, 160, split);
  plan.blocks = 1;
  return plan;
}

Outcome run(int group_heads, bool split, std::vector<Mutation> mutations, bool list_call_sites,
            int launches = 1) {
  emulator::SessionOptions options;
  options.mutations = std::move(mutations);
  options.list_call_sites = list_call_sites;
  Attention attention = problem_for(group_heads);
  // What waits for the kernel before must have one.
  attention.launches = launches;
  return attention.run(plan_for(attention, group_heads, split), options);
}

// What can be done to a call: leave it out, or change its amount.
std::vector<std::int32_t> amounts(Primitive primitive) {
  switch (primitive) {
    case Primitive::initialise:
      return {0, 1, -1};
    case Primitive::arrive_expecting:
      return {0, 16, -16};
    case Primitive::copy_bulk:
      return {0, static_cast<std::int32_t>(kRowBytes), -16};
    case Primitive::wait:
      return {0, 1};
    case Primitive::sync_named:
      return {0, 32};
    default:
      return {0};
  }
}

class Mutants : public ::testing::TestWithParam<int> {};

// With the chunks folded by a block or by combine: what one of the two needs, the other may not.
TEST_P(Mutants, AreNoticed) {
  const int group_heads = GetParam();
  std::set<CallSite> sites;
  std::set<Primitive> seen;
  for (const bool split : {false, true}) {
    const Outcome clean = run(group_heads, split, {}, true);
    ASSERT_TRUE(clean.reports.empty()) << clean.reports.front().text();
    for (const CallSite& site : clean.call_sites) {
      sites.insert(site);
      seen.insert(site.primitive);
    }
  }
  EXPECT_TRUE(seen.contains(Primitive::wait) && seen.contains(Primitive::initialise) &&
              seen.contains(Primitive::copy_bulk) && seen.contains(Primitive::sync_block) &&
              seen.contains(Primitive::wait_for_previous_kernel));
  for (const CallSite& site : sites) {
    const int launches = site.primitive == Primitive::wait_for_previous_kernel ? 2 : 1;
    for (const std::int32_t amount : amounts(site.primitive)) {
      bool noticed = false;
      for (const bool split : {false, true})
        noticed =
            noticed || !run(group_heads, split, {{site, amount}}, false, launches).reports.empty();
      EXPECT_TRUE(noticed) << place_of(site)
                           << (amount == 0 ? " left out" : " changed by " + std::to_string(amount));
    }
  }
  ASSERT_TRUE(run(group_heads, true, {}, false, 2).reports.empty());
}

INSTANTIATE_TEST_SUITE_P(Heads, Mutants, ::testing::Values(16, 64),
                         ::testing::PrintToStringParamName());

// The check of an index against the slots, dropped.
TEST(Mutant, IndexCheckDroppedIsNoticed) {
  Attention attention = problem_for(16);
  attention.indices[17] = 400;
  const SparseAttentionPlan plan = plan_for(attention, 16, false);
  ASSERT_TRUE(attention.run(plan).reports.empty());
  const Outcome outcome = attention.run(
      plan, {}, [](SparseAttentionArguments& arguments) { arguments.slots = 0xffffffffu; });
  ASSERT_FALSE(outcome.reports.empty());
  EXPECT_EQ(outcome.reports.front().kind, emulator::ReportKind::out_of_bounds)
      << outcome.reports.front().text();
}

}  // namespace
}  // namespace mlacheck::kernels::testing
