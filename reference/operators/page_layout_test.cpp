#include "reference/operators/page_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace mlacheck {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void check(const PageLayout& layout, std::vector<std::int32_t> slots, std::size_t elements) {
  detail::require_slots(layout, 10, slots, 3, elements, "here");
}

TEST(PageLayout, AcceptsPaddedPagesAndSkippedSlots) {
  EXPECT_NO_THROW(check({8, 4, 40}, {-1, 0, 7, 7}, 12));
  EXPECT_NO_THROW(check({7, 4, 45}, {}, 0));
  EXPECT_NO_THROW(check({0, 1, 10}, {-1}, 3));
}

TEST(PageLayout, RefusesContradictionsByName) {
  const auto refuses = [](const char* what) {
    return ThrowsMessage<std::invalid_argument>(HasSubstr(what));
  };
  EXPECT_THAT(
      [] {
        check({8, 4, 40}, {0, 8}, 6);
      },
      refuses("here: slots[1]: expected -1 or a slot of [0, 8), got 8"));
  EXPECT_THAT([] { check({8, 4, 40}, {-2}, 3); }, refuses("slots[0]"));
  EXPECT_THAT(
      [] {
        check({8, 4, 39}, {0}, 3);
      },
      refuses("layout.page_stride: expected >= 4 * 10 bytes, got 39"));
  EXPECT_THAT([] { check({8, 0, 40}, {0}, 3); }, refuses("layout.page_size"));
  EXPECT_THAT([] { check({-1, 4, 40}, {}, 0); }, refuses("layout.slots"));
  EXPECT_THAT(
      [] {
        check({8, 4, 40}, {0, 1}, 3);
      },
      refuses("rows: expected 2 * 3 elements, got 3"));
}

// A product that wraps around would pass for a small one.
TEST(PageLayout, RefusesSpansThatOverflow) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  EXPECT_THAT(
      [] {
        check({8, kHuge, 40}, {0}, 3);
      },
      ThrowsMessage<std::invalid_argument>(
          HasSubstr("layout.page_size: expected pages of at most 2^62 bytes")));
  EXPECT_THAT(
      [] {
        check({32, 4, kHuge}, {0}, 3);
      },
      ThrowsMessage<std::invalid_argument>(
          HasSubstr("layout.page_stride: expected at most 2^62 bytes in 8 pages")));
  EXPECT_NO_THROW(check({4, 4, kHuge}, {0}, 3));
}

}  // namespace
}  // namespace mlacheck
