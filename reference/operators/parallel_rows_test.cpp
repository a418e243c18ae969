#include "reference/operators/parallel_rows.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace mlacheck::detail {
namespace {

TEST(ParallelRows, RunsEveryRowOnceWithAStateOfItsThread) {
  std::vector<int> runs(1000);
  const auto state = [] { return std::vector<int>(3); };
  parallel_rows(1000, state, [&](std::int64_t i, std::vector<int>& mine) {
    ASSERT_EQ(mine.size(), 3u);
    ++runs[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(runs, std::vector<int>(1000, 1));
  parallel_rows(0, [](std::int64_t) { FAIL(); });
}

TEST(ParallelRows, ThrowsWhatARowThrew) {
  try {
    parallel_rows(1000, [](std::int64_t i) {
      if (i == 77) throw std::invalid_argument("row 77");
    });
    FAIL() << "nothing thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()), "row 77");
  }
}

TEST(ParallelRows, ThrowsWhatMakingAStateThrew) {
  const auto no_memory = []() -> int { throw std::bad_alloc(); };
  EXPECT_THROW(parallel_rows(10, no_memory, [](std::int64_t, int&) {}), std::bad_alloc);
}

}  // namespace
}  // namespace mlacheck::detail
