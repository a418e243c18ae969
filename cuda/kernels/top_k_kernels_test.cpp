#include <gtest/gtest.h>

#include "cuda/kernels/top_k_testing.h"

// The kernels against the reference's top_k, which selects by another method.
namespace mlacheck::kernels::testing {
namespace {

void expect_selected(const Selecting& selecting, std::uint32_t slices,
                     emulator::SessionOptions options = {}) {
  const Selection selection = selecting.run(slices, std::move(options));
  ASSERT_EQ(text_of(selection.reports), "");
  const std::vector<std::int32_t> expected = selecting.expected();
  const auto k = static_cast<std::size_t>(selecting.problem.k);
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(selection.selected[i], expected[i])
        << "row " << i / k << " entry " << i % k << ", " << slices << " slices";
}

// One more than a block's candidates, so that they are guessed, and fewer.
constexpr std::int64_t kMany = 20'011, kFew = 5'003;

TEST(TopKKernels, SelectFromEveryDistribution) {
  for (const std::int64_t columns : {kFew, kMany})
    for (const std::int64_t k : {1, 100, 2048}) {
      Selecting selecting(std::size(kAllScores), columns, k);
      for (std::size_t row = 0; row < std::size(kAllScores); ++row)
        selecting.fill_row(static_cast<std::int64_t>(row),
                           scores_of(kAllScores[row], static_cast<std::size_t>(columns), row + 1));
      SCOPED_TRACE(::testing::Message() << columns << " columns, k " << k);
      expect_selected(selecting, 1);
      expect_selected(selecting, 3);
      expect_selected(selecting, kStreams);
    }
}

TEST(TopKKernels, TakeAnyRangeOfARow) {
  constexpr std::int32_t k = 2048;
  // Lengths about every limit, at every alignment.
  const std::int32_t lengths[] = {0,     1,    2,     3,      4,      5,     31,
                                  k - 1, k,    k + 1, k + 7,  2 * k,  8191,  8192,
                                  8193,  8200, 8209,  12'345, 16'384, 16'385};
  const auto rows = static_cast<std::int64_t>(std::size(lengths));
  Selecting selecting(rows, 16'400, k);
  selecting.problem.score_stride = 16'411;
  selecting.scores = scores_of(Scores::normal, static_cast<std::size_t>(rows * 16'411), 5);
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    selecting.begin[i] = static_cast<std::int32_t>(i * 5 % 13);
    selecting.end[i] = selecting.begin[i] + lengths[i];
  }
  expect_selected(selecting, 1);
  expect_selected(selecting, 2);
  expect_selected(selecting, 32);
  expect_selected(selecting, kStreams);
}

TEST(TopKKernels, TakeShortRangesAtEveryAlignment) {
  for (const std::int64_t k : {1, 3}) {
    Selecting selecting(4 * 12, 64, k);
    selecting.scores = scores_of(Scores::normal, 4 * 12 * 64, 5);
    for (std::int32_t i = 0; i < 4 * 12; ++i) {
      selecting.begin[static_cast<std::size_t>(i)] = i % 4;
      selecting.end[static_cast<std::size_t>(i)] = i % 4 + i / 4;
    }
    SCOPED_TRACE(k);
    expect_selected(selecting, 1);
    expect_selected(selecting, kStreams);
  }
}

TEST(TopKKernels, WhatStandsOutsideOfARangeIsNotRead) {
  Selecting selecting(3, 9'000, 64);
  selecting.fill_row(1, scores_of(Scores::normal, 9'000, 1));
  selecting.begin = {0, 1, 9'000};
  selecting.end = {0, 8'999, 9'000};
  selecting.scores[9'000] = selecting.scores[2 * 9'000 - 1] = 1e9f;
  expect_selected(selecting, 1);
  expect_selected(selecting, 3);
  expect_selected(selecting, kStreams);
}

TEST(TopKKernels, SelectAnyNumber) {
  for (const std::int64_t k : {1, 2, 31, 192, 1152, 2176, 4095, 4096}) {
    Selecting selecting(2, 9'001, k);
    selecting.fill_row(0, scores_of(Scores::normal, 9'001, 7));
    selecting.fill_row(1, scores_of(Scores::narrow, 9'001, 8));
    SCOPED_TRACE(k);
    expect_selected(selecting, 1);
    expect_selected(selecting, 2);
    if (k <= TopKStream::kMostSelected) expect_selected(selecting, kStreams);
  }
}

TEST(TopKKernels, SelectFromLongRows) {
  Selecting selecting(2, 262'209, 2048);
  selecting.fill_row(0, scores_of(Scores::normal, 262'209, 3));
  selecting.fill_row(1, scores_of(Scores::few_above_zeros, 262'209, 4));
  expect_selected(selecting, 1);
  expect_selected(selecting, 32);
}

// The k-th and the next in different bins of a digit, all others in one.
TEST(TopKKernels, CutAtTheEdgeOfADigit) {
  Selecting selecting(1, 9'500, 512);
  std::vector<float> values(9'500, std::bit_cast<float>(0x3fffffffu));
  for (std::size_t i = 0; i < 512; ++i) values[i * 17 + 3] = 2.0f;
  selecting.fill_row(0, values);
  expect_selected(selecting, 1);
  expect_selected(selecting, 2);
  expect_selected(selecting, kStreams);
}

// Too few candidates, or too many.
TEST(TopKKernels, AreRightWhereTheGuessIsWrong) {
  Selecting selecting(2, 70'000, 2048);
  selecting.fill_row(0, scores_that_mislead(70'000, 5, true));
  selecting.fill_row(1, scores_that_mislead(70'000, 5, false));
  expect_selected(selecting, 1);
  expect_selected(selecting, 4);
}

TEST(TopKKernels, GiveTheSameOnEverySchedule) {
  Selecting selecting(3, kMany, 700);
  selecting.fill_row(0, scores_of(Scores::normal, kMany, 1));
  selecting.fill_row(1, scores_of(Scores::two_values, kMany, 2));
  selecting.fill_row(2, scores_of(Scores::specials, kMany, 3));
  for (std::uint64_t seed = 2; seed < 6; ++seed) {
    emulator::SessionOptions options;
    options.seed = seed;
    options.resident_blocks = static_cast<std::uint32_t>(seed % 2) + 1;
    expect_selected(selecting, 1, options);
    expect_selected(selecting, 3, options);
    expect_selected(selecting, kStreams, options);
  }
}

// So that a stream guesses again.
TEST(TopKKernels, AreRightWhereTheSampleOfAStreamMisleads) {
  constexpr std::int32_t kColumns = 70'000;
  Selecting selecting(2, kColumns, 2048);
  mislead_stream(selecting, 0, 20.0f);
  mislead_stream(selecting, 1, -20.0f);
  expect_selected(selecting, kStreams);
}

TEST(TopKKernels, StreamLongRows) {
  constexpr std::int64_t kColumns = TopKStream::kMostLength, kStride = kColumns + 1;
  for (const std::int64_t k : {1, 2048}) {
    Selecting selecting(std::size(kAllScores), kColumns, k);
    selecting.problem.score_stride = kStride;
    selecting.scores.resize(std::size(kAllScores) * kStride);
    for (std::size_t row = 0; row < std::size(kAllScores); ++row)
      selecting.fill_row(static_cast<std::int64_t>(row),
                         scores_of(kAllScores[row], kColumns, row + 1));
    expect_selected(selecting, kStreams);
  }
}

}  // namespace
}  // namespace mlacheck::kernels::testing
