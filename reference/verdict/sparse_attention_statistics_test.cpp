// The statistics behind the fast tests, with many rows: how often clean kernels are flagged and
// faults are missed.

#include <gtest/gtest.h>

#include "reference/verdict/sparse_attention_faults.h"

namespace mlacheck {
namespace {

using testing::Judge;
using testing::Regime;

TEST(SparseAttentionStatistics, NoFalseAlarmInTwoThousandRealRows) {
  double core_ratio = 0;
  for (const Regime regime : {Regime::flat, Regime::peaky, Regime::biased, Regime::sink_key})
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const Judge judge(testing::make_problem(regime, {.heads = 64, .keys = 2048}, 100 + seed),
                        testing::tensor_core_contract());
      const Judge::Statuses statuses = judge.run(testing::tensor_core_kernel());
      EXPECT_EQ(testing::flagged(statuses.out), 0) << "regime " << static_cast<int>(regime);
      EXPECT_EQ(testing::flagged(statuses.lse), 0) << "regime " << static_cast<int>(regime);
      core_ratio = std::max(core_ratio, statuses.core_ratio);
    }
  // The bound is sound, and not slack.
  EXPECT_LT(core_ratio, 1);
  EXPECT_GT(core_ratio, 0.3);
}

TEST(SparseAttentionStatistics, SeesFaultsInEveryRow) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed)
    testing::expect_faults_seen({.heads = 32, .keys = 2048}, 200 + seed,
                                [](const testing::Fault& fault, std::int64_t seen) {
                                  EXPECT_GE(static_cast<double>(seen), fault.share * 32)
                                      << fault.name << ", regime "
                                      << static_cast<int>(fault.regime);
                                });
}

}  // namespace
}  // namespace mlacheck
