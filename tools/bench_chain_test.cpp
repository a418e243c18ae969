// The chain of scores, selection, slots and attention as one run of the emulated kernels, and as
// bench judges it: each stage on what the one before wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "cuda/plugin/kernel_worker.h"
#include "cuda/plugin/library_description.h"
#include "tools/bench_case.h"

namespace mlacheck {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const KernelLibrary& emulated() {
  static const KernelLibrary library =
      describe_in_worker(service_by(MLACHECK_PROGRAM, EMULATED_LIBRARY));
  return library;
}

struct Chain {
  explicit Chain(const char* keys)
      : bench(make_chain_bench(parse_recipe(
            std::string("mlacheck1 op=index_scores t=2 h=32 n=260 q=f16 keys=f16 ") + keys))),
        call(bench->make_call({.tokens = 2, .calls = 1})) {
    std::string names;
    for (const std::int32_t op : bench->ops()) {
      const char* name = op == MLACHECK_INDEX_SCORES ? "index_scores_f16"
                         : op == MLACHECK_TOP_K      ? "top_k"
                         : op == MLACHECK_MAP_SLOTS  ? "map_slots"
                                                     : "sparse_attention_f16";
      names += (names.empty() ? "" : "\n") + std::string(name);
      kernels.push_back(&emulated().kernel(name));
    }
    outcome = run_in_worker(*call, emulated().target(names));
  }
  std::string flaw() const {
    for (const Finding& finding : bench->judge(*call, kernels))
      if (finding.status != Status::pass) return to_string(finding);
    return "";
  }
  std::byte* output(CallTensor tensor, std::size_t stage) {
    return const_cast<std::byte*>(call->tensor(tensor, 0, stage).data());
  }

  std::unique_ptr<BenchCase> bench;
  std::unique_ptr<KernelCall> call;
  std::vector<const mlacheck_kernel*> kernels;
  CallOutcome outcome;
};

TEST(BenchChain, RunsOnTheEmulatorAndIsRight) {
  for (const char* keys : {"", "range=causal", "page=16 table=shuffled",
                           "range=random page=64 "
                           "table=shuffled"}) {
    SCOPED_TRACE(keys);
    const Chain chain(keys);
    ASSERT_EQ(chain.outcome.kind, CallOutcome::Kind::done) << chain.outcome.detail;
    EXPECT_THAT(chain.call->trespasses(), IsEmpty());
    EXPECT_EQ(chain.flaw(), "");
  }
}

// A stage that went wrong is named, not those after it, which took what it gave.
TEST(BenchChain, NamesTheStageThatIsWrong) {
  Chain chain("page=16 table=shuffled");
  ASSERT_EQ(chain.flaw(), "");
  const auto wrong_with = [&](CallTensor tensor, std::size_t stage, const char* named) {
    std::byte* at = chain.output(tensor, stage);
    const std::vector<std::byte> kept(at, at + 8);
    std::memset(at, 0, 8);
    EXPECT_THAT(chain.flaw(), HasSubstr(named));
    std::ranges::copy(kept, at);
  };
  wrong_with(CallTensor::scores_out, 0, "index_scores");
  wrong_with(CallTensor::selected, 1, "top_k");
  wrong_with(CallTensor::slots, 2, "map_slots");
  wrong_with(CallTensor::out, 3, "sparse_attention.out");
  wrong_with(CallTensor::lse, 3, "sparse_attention.lse");
  EXPECT_EQ(chain.flaw(), "");
}

// All stages right of themselves, but attention on other slots than those of its stage before.
TEST(BenchChain, SeesAttentionOnOtherSlots) {
  Chain chain("page=16 table=shuffled"), other("page=16 table=shuffled seed=2");
  const std::span<const std::byte> out = other.call->tensor(CallTensor::out, 0, 3);
  std::ranges::copy(out, chain.output(CallTensor::out, 3));
  EXPECT_THAT(chain.flaw(), HasSubstr("sparse_attention.out"));
}

TEST(BenchChain, RefusesOtherRecipes) {
  EXPECT_THROW(make_chain_bench(parse_recipe("mlacheck1 op=top_k")), std::invalid_argument);
  EXPECT_THROW(
      make_chain_bench(parse_recipe("mlacheck1 op=index_scores requests=2 table=shuffled page=16")),
      std::invalid_argument);
}

TEST(BenchChain, CountsNeitherScoresNorSlotsAsWork) {
  const Chain chain("");
  const CallWork work = chain.bench->work({.tokens = 2, .calls = 1});
  EXPECT_EQ(work.read_bytes, 260 * 256 + 2 * 65 * 1152);
  EXPECT_EQ(work.other_bytes, 2 * 32 * (128 * 2 + 4) + 2 * 64 * (576 * 2 + 512 * 2 + 4));
  EXPECT_EQ(work.flops, 2.0 * 2 * 260 * 32 * 128 + 2.0 * 2 * 65 * 64 * (576 + 512));
}

}  // namespace
}  // namespace mlacheck
