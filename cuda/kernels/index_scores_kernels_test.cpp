#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <tuple>

#include "cuda/kernels/index_scores_testing.h"
#include "reference/arithmetic/tensor_core.h"

namespace mlacheck::kernels::testing {
namespace {

using device::Element;
using ::testing::HasSubstr;

constexpr Element kElements[] = {Element::f16, Element::bf16};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Clean, and inside the interval of what the kernel declares.
void expect_right(const IndexProblem& problem, const ScoreOutcome& outcome) {
  EXPECT_EQ(text_of(outcome.reports), "");
  EXPECT_FALSE(outcome.wrote_slack);
  const Finding finding = problem.judge(outcome.scores);
  EXPECT_EQ(finding.status, Status::pass) << to_string(finding);
}

// Ranges that begin anywhere, none, one key, and beyond no key of the warp before.
void make_ragged(IndexProblem& problem) {
  const auto n = static_cast<std::int32_t>(problem.key_count);
  const std::int32_t begin[] = {0, n / 3, n, n / 2, 0, std::min(n, 31)};
  const std::int32_t end[] = {n, n - n / 4, n, std::min(n, n / 2 + 1), 0, std::min(n, 33)};
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    problem.begin.push_back(begin[t % 6]);
    problem.end.push_back(end[t % 6]);
  }
}

class Shapes : public ::testing::TestWithParam<std::tuple<int, int>> {};

// Every count of heads with every count of keys; types, page sizes and plans in turn.
TEST_P(Shapes, AreInsideTheDeclaredInterval) {
  const auto [heads, keys] = GetParam();
  const int turn = heads + keys;
  for (const Element element : kElements) {
    IndexProblem problem(6, heads, keys, element, static_cast<std::uint32_t>(turn));
    make_ragged(problem);
    constexpr std::int64_t kPages[] = {0, 1, 2, 53, 64};
    const std::int64_t page = kPages[(turn + (element == Element::f16 ? 0 : 2)) % 5];
    if (page > 0) problem.paginate(page, 2);
    expect_right(problem, problem.run(problem.plan()));
  }
}
INSTANTIATE_TEST_SUITE_P(All, Shapes,
                         ::testing::Combine(::testing::Values(1, 11, 32, 33, 64),
                                            ::testing::Values(0, 1, 63, 64, 65, 300)));

TEST(IndexScoresKernel, SubnormalAndHugeValues) {
  for (const Element element : kElements) {
    IndexProblem problem(3, 33, 64, element);
    for (std::size_t i = 0; i < problem.keys.size(); ++i) {
      const std::size_t key = i / kIndexDim;
      if (key % 3 == 1) problem.keys[i] = problem.keys[i] & 0x800f;  // subnormal
      if (key % 3 == 2)
        problem.keys[i] = (problem.keys[i] & 0x83ff) | 0x7800;  // huge, finite in f16
    }
    if (element == Element::bf16)
      for (std::size_t i = 0; i < problem.keys.size(); ++i)
        if (i / kIndexDim % 3 == 2) problem.keys[i] = (problem.keys[i] & 0x807f) | 0x7b00;
    for (std::size_t i = 0; i < problem.weights.size(); i += 2) problem.weights[i] *= 0x1p-140f;
    expect_right(problem, problem.run(problem.plan()));
  }
}

TEST(IndexScoresKernel, NanAndInfinityOfAKeyStayWithIt) {
  // 11 heads: the zeros of absent ones meet the infinity too.
  IndexProblem problem(2, 11, 40, Element::f16);
  for (float& weight : problem.weights) weight = std::abs(weight);
  const std::vector<float> clean = problem.run(problem.plan()).scores;
  problem.key(0, 7)[5] = 0x7e00;
  problem.key(0, 35)[127] = 0x7c00;
  const ScoreOutcome outcome = problem.run(problem.plan());
  expect_right(problem, outcome);
  for (std::size_t i = 0; i < outcome.scores.size(); ++i) {
    const float score = outcome.scores[i];
    if (i % 40 == 7)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(score), 0x7fffffffu) << i;
    else if (i % 40 == 35)
      EXPECT_EQ(score, std::numeric_limits<float>::infinity()) << i;
    else
      EXPECT_EQ(score, clean[i]) << i;
  }
}

TEST(IndexScoresKernel, NoCutAndNoScheduleChangesABit) {
  IndexProblem problem(7, 33, 300, Element::bf16);
  make_ragged(problem);
  problem.paginate(53, 3);
  const std::vector<float> expected = problem.run(problem.plan()).scores;
  std::uint32_t seed = 2;
  for (const std::uint32_t rows : {1u, 3u, 32u})
    for (const std::uint32_t warps : {1u, 3u, 8u}) {
      emulator::SessionOptions options;
      options.seed = seed++;
      const ScoreOutcome outcome = problem.run(cut(problem, rows, warps, seed % 3 + 1), options);
      EXPECT_EQ(text_of(outcome.reports), "");
      EXPECT_TRUE(same_bits(outcome.scores, expected)) << rows << " rows, " << warps << " warps";
    }
}

TEST(IndexScoresKernel, QueriesOfASingleRowStayOrPass) {
  for (const std::int64_t heads : {1, 33, 128, 129}) {
    IndexProblem problem(1, heads, 700, Element::f16);
    problem.begin = {40};
    problem.end = {650};
    for (const std::uint32_t warps : {1u, 2u, 8u})
      expect_right(problem, problem.run(cut(problem, 1, warps, 2)));
  }
}

TEST(IndexScoresKernel, GivesTheSameBitsInEveryOrderOfItsBlocks) {
  IndexProblem problem(5, 17, 200, Element::f16);
  make_ragged(problem);
  problem.paginate(16, 2);
  const IndexScoresPlan plan = cut(problem, 2, 2, 7);
  const std::vector<float> expected = problem.run(plan).scores;
  for (std::uint64_t seed = 2; seed <= 51; ++seed) {
    emulator::SessionOptions options;
    options.seed = seed;
    options.resident_blocks = static_cast<std::uint32_t>(seed % 3) + 1;
    const ScoreOutcome outcome = problem.run(plan, options);
    ASSERT_EQ(text_of(outcome.reports), "") << "seed " << seed;
    ASSERT_TRUE(same_bits(outcome.scores, expected)) << "seed " << seed;
  }
}

TEST(IndexScoresKernel, ARowAloneHasTheBitsThatItHasInABatch) {
  IndexProblem batch(5, 32, 200, Element::f16);
  const std::vector<float> all = batch.run(batch.plan()).scores;
  IndexProblem alone = batch;
  alone.tokens = 1;
  alone.q.assign(batch.q.end() - 32 * kIndexDim, batch.q.end());
  alone.weights.assign(batch.weights.end() - 32, batch.weights.end());
  EXPECT_TRUE(same_bits(alone.run(alone.plan()).scores, {all.end() - 200, all.end()}));
}

// The operations that index_scores.h lists, one by one.
TEST(IndexScoresKernel, AScoreIsTheSumThatTheHeadStates) {
  for (const Element element : kElements) {
    IndexProblem problem(1, 40, 32, element);
    const ScoreOutcome outcome = problem.run(problem.plan());
    const Mma mma = {element == Element::f16 ? DType::f16 : DType::bf16, Lowering::hmma16_f25};
    for (std::int64_t key = 0; key < 32; ++key) {
      float s[4] = {};
      for (std::int64_t unit = 0; unit < 48; unit += 16)
        for (std::int64_t t = 0; t < 4; ++t) {
          float v = 0;
          for (const std::int64_t h : {unit + t, unit + t + 8, unit + t + 4, unit + t + 12}) {
            if (h >= 40) continue;
            float c[16][8] = {};
            for (int step = 0; step < 8; ++step) {
              std::uint16_t a[16][16] = {}, b[16][8] = {};
              for (int i = 0; i < 16; ++i) {
                const int dim = 32 * (step / 2) + 8 * (i / 4) + 4 * (step % 2) + i % 4;
                a[0][i] = problem.key(0, key)[dim];
                b[i][0] = problem.q[static_cast<std::size_t>(h * kIndexDim + dim)];
              }
              mma_m16n8k16(mma, a, b, c, c);
            }
            const float weight = problem.weights[static_cast<std::size_t>(h)];
            const float r = c[0][0] > 0 ? c[0][0] : 0;
            v = h == unit + t ? weight * r : std::fma(weight, r, v);
          }
          s[t] = unit == 0 ? v : s[t] + v;
        }
      EXPECT_EQ(outcome.scores[static_cast<std::size_t>(key)], (s[0] + s[1]) + (s[2] + s[3]));
    }
  }
}

TEST(IndexScoresKernel, HeadsAndTokensMayLieApart) {
  IndexProblem problem(3, 17, 50, Element::f16);
  problem.head_gap = 8;
  problem.q.resize(static_cast<std::size_t>(3 * 17 * (kIndexDim + 8)), 0x3c00);
  expect_right(problem, problem.run(problem.plan()));
}

TEST(IndexScoresKernel, AnAbsentPageOrSlotIsNotReadAndScoresAsOutside) {
  IndexProblem problem(1, 32, 100, Element::f16);
  problem.paginate(16, 1);
  problem.slots -= 3;  // page 6, wherever it lies, loses its last slots
  const std::int32_t absent[] = {-1, std::numeric_limits<std::int32_t>::min(), 7,
                                 std::numeric_limits<std::int32_t>::max()};
  const std::vector<float> clean = problem.run(problem.plan()).scores;
  for (const std::int32_t page : absent) {
    IndexProblem wrong = problem;
    wrong.block_table[2] = page;
    const ScoreOutcome outcome = wrong.run(wrong.plan());
    EXPECT_EQ(text_of(outcome.reports), "");
    for (std::size_t s = 0; s < 100; ++s)
      EXPECT_EQ(outcome.scores[s], s / 16 == 2 ? kScoreOutside : clean[s]) << s;
  }
  const auto last = std::find(problem.block_table.begin(), problem.block_table.end(), 6);
  const auto first = static_cast<std::size_t>(last - problem.block_table.begin()) * 16;
  for (std::size_t s = first; s < std::min<std::size_t>(first + 16, 100); ++s)
    EXPECT_EQ(std::isinf(clean[s]), s - first >= 13) << s;
}

TEST(IndexScoresKernel, UnmaskedWritesInsideOfTheRangesAlone) {
  IndexProblem problem(7, 33, 300, Element::bf16);
  make_ragged(problem);
  problem.paginate(53, 3);
  problem.block_table[1] = -1;  // scores -inf, as it is inside
  std::vector<float> expected = problem.run(problem.plan()).scores;
  for (std::int64_t t = 0; t < 7; ++t)
    for (std::int64_t s = 0; s < 300; ++s)
      if (s < problem.begin_of(t) || s >= problem.end_of(t))
        expected[static_cast<std::size_t>(t * 300 + s)] = kUnwritten;
  EXPECT_GT(std::count(expected.begin(), expected.end(), kUnwritten), 0);
  EXPECT_GT(std::count(expected.begin(), expected.end(), kScoreOutside), 0);
  for (const std::uint32_t rows : {1u, 32u})
    for (const std::uint32_t warps : {1u, 4u}) {
      const ScoreOutcome outcome = problem.run(cut(problem, rows, warps), {},
                                               [](IndexScoresArguments& a) { a.masks = false; });
      EXPECT_EQ(text_of(outcome.reports), "");
      EXPECT_FALSE(outcome.wrote_slack);
      EXPECT_TRUE(same_bits(outcome.scores, expected)) << rows << " rows, " << warps << " warps";
    }
}

TEST(IndexScoresKernel, RangesPastTheKeysEndAtThem) {
  IndexProblem problem(2, 8, 40, Element::f16);
  const std::vector<float> all = problem.run(problem.plan()).scores;
  problem.begin = {-5, 10};
  problem.end = {1 << 30, 41};
  const ScoreOutcome outcome = problem.run(problem.plan());
  EXPECT_EQ(text_of(outcome.reports), "");
  for (std::size_t i = 0; i < 80; ++i)
    EXPECT_EQ(outcome.scores[i], i >= 40 && i < 50 ? kScoreOutside : all[i]) << i;
}

TEST(IndexScoresKernel, RefusesWithTheValueAndWhatIsAllowed) {
  const mlacheck_index_scores_problem good = IndexProblem(1, 8, 20, Element::f16).abi();
  EXPECT_EQ(refusal(good), "");
  auto p = good;
  p.dim = 64;
  EXPECT_THAT(refusal(p), HasSubstr("dim 64: 128"));
  p = good;
  p.keys.format = MLACHECK_CACHE_INDEX_PAGES;
  EXPECT_THAT(refusal(p), HasSubstr("keys.format 3: rows"));
  p = good;
  p.keys.dtype = MLACHECK_E4M3;
  EXPECT_THAT(refusal(p), HasSubstr("keys.dtype 4: that of q"));
  p = good;
  p.q_dtype = MLACHECK_F32;
  EXPECT_THAT(refusal(p), HasSubstr("q_dtype 1: f16 (2) or bf16 (3)"));
  p = good;
  p.q_head_stride = 132;
  EXPECT_THAT(refusal(p), HasSubstr("q_head_stride 132"));
  p = good;
  p.keys.row_stride = 264;
  EXPECT_THAT(refusal(p), HasSubstr("keys.row_stride 264"));
  p = good;
  p.has_block_table = 1;
  p.keys.page_size = 4;
  p.block_table_stride = 4;
  EXPECT_THAT(refusal(p), HasSubstr("block_table_stride 4"));
}

}  // namespace
}  // namespace mlacheck::kernels::testing
