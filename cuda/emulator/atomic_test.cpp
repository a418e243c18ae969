// Atomics on shared memory: what they promise, and what they do not order.
#include "cuda/device/atomic.h"

#include <algorithm>
#include <set>

#include "cuda/emulator/kernel_testing.h"

namespace mlacheck::kernel_testing {
namespace {

SharedPointer<std::uint32_t> word(unsigned i) {
  return shared(shared_memory<Layout>().x[0]).as<std::uint32_t>() + i;
}

// Words 0 ... 63 are 0, and everybody knows.
void clear_words() {
  if (warp_index() == 0)
    for (unsigned i = lane_index(); i < 64; i += 32) store(word(i), 0u);
  sync_block();
}

TEST(Atomic, AddsAndGivesWhatWasThereInSomeOrder) {
  const auto kernel = [](Arguments a) {
    clear_words();
    const unsigned t = thread_index();
    store(a.out + t, static_cast<float>(atomic_add(word(1), 1)));
    atomic_add(word(2), t);
    sync_block();
    store(a.out + 256 + t, static_cast<float>(load(word(1)) * 10'000 + load(word(2))));
  };
  std::set<std::array<float, 1024>> orders;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SessionOptions options;
    options.seed = seed;
    std::array<float, 1024> out = out_of(kernel, shape_of(96), options);
    orders.insert(out);
    std::sort(out.begin(), out.begin() + 96);
    for (unsigned t = 0; t < 96; ++t) {
      EXPECT_EQ(out[t], static_cast<float>(t));
      EXPECT_EQ(out[256 + t], 96 * 10'000 + 95 * 96 / 2);
    }
  }
  EXPECT_GT(orders.size(), 1u);  // a kernel whose result shows the order does not stay unseen
}

TEST(Atomic, LeavesTheMaximum) {
  const auto out = out_of(
      [](Arguments a) {
        clear_words();
        const unsigned t = thread_index();
        atomic_maximum(word(3), t * 37 % 64 + 0x80000000u);
        sync_block();
        store(a.out + t, static_cast<float>(load(word(3)) - 0x80000000u));
      },
      shape_of(64));
  EXPECT_EQ(out[0], 63.0f);
  EXPECT_EQ(out[63], 63.0f);
}

TEST(Atomic, RacesWithAStore) {
  const Report report = expect_report(
      ReportKind::data_race,
      [](Arguments) {
        clear_words();
        if (thread_index() == 0) store(word(5), 1u);
        if (thread_index() == 40) atomic_add(word(5), 1);
      },
      shape_of(64));
  EXPECT_EQ(report.space, Space::shared);
  EXPECT_EQ(report.offset, offsetof(Layout, x) + 20);
  // Another lane of the same warp is no better.
  expect_report(
      ReportKind::data_race,
      [](Arguments) {
        clear_words();
        if (thread_index() == 0) store(word(0), 1u);
        if (thread_index() == 1) atomic_maximum(word(0), 1);
      },
      shape_of(32));
}

// A load waits for every atomic since the last store, not for the last one alone.
TEST(Atomic, RacesWithALoad) {
  const Kernel kernel = [](Arguments a) {
    clear_words();
    if (warp_index() < 2) atomic_add(word(0), 1);
    if (warp_index() > 0) sync_named<1>(64);
    if (warp_index() == 2) store(a.out + thread_index(), static_cast<float>(load(word(0))));
  };
  expect_report(ReportKind::data_race, kernel, shape_of(96));
  expect_clean(
      [](Arguments a) {
        clear_words();
        if (warp_index() < 2) atomic_add(word(0), 1);
        sync_block();
        store(a.out + thread_index(), static_cast<float>(load(word(0))));
        sync_block();
        atomic_add(word(0), 1);
      },
      shape_of(96));
}

TEST(Atomic, OfAWordThatNobodyHasWritten) {
  const Report report = expect_report(
      ReportKind::uninitialised_read, [](Arguments) { atomic_add(word(7), 1); }, shape_of(32));
  EXPECT_EQ(report.offset, offsetof(Layout, x) + 28);
}

TEST(Atomic, BoundsAndAlignment) {
  expect_report(
      ReportKind::out_of_bounds,
      [](Arguments) { atomic_add(SharedPointer<std::uint32_t>{sizeof(Layout)}, 1); }, shape_of(32));
  expect_report(
      ReportKind::misaligned, [](Arguments) { atomic_add(SharedPointer<std::uint32_t>{1026}, 1); },
      shape_of(32));
}

}  // namespace
}  // namespace mlacheck::kernel_testing
