// Barriers: right uses, and each wrong one by its report.
#include "cuda/emulator/kernel_testing.h"

namespace mlacheck::kernel_testing {
namespace {

using ::testing::HasSubstr;

Layout& layout() { return shared_memory<Layout>(); }
SharedPointer<device::Barrier> barrier(int i) { return shared(layout().barrier[i]); }
SharedPointer<std::byte> tile(int i) { return shared(layout().tile[i][0]); }

// Barriers 0 and 1: a tile is full (one arrival) and empty again (`readers` arrivals).
void initialise_all(unsigned readers) {
  if (thread_index() == 0) {
    for (int i = 0; i < 2; ++i) initialise(barrier(i), 1);
    for (int i = 2; i < 4; ++i) initialise(barrier(i), readers);
    publish_barriers();
  }
  sync_block();
}

TEST(Barriers, LanesThatArriveEachForThemselves) {
  expect_clean(
      [](Arguments a) {
        initialise_all(32);
        const unsigned t = thread_index();
        if (t < 32) {
          store(shared(layout().x[t]), 1.0f);
          arrive(barrier(2));
        } else {
          wait(barrier(2), 0);
          store(a.out + t, load(shared(layout().x[63 - t])));
        }
      },
      shape_of(64));
}

TEST(Barriers, UseBeforeInitialisation) {
  expect_report(
      ReportKind::barrier_misuse, [](Arguments) { wait(barrier(0), 0); }, shape_of(32));
  const Report unpublished = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        if (thread_index() == 0) initialise(barrier(0), 64);
        sync_block();
        arrive(barrier(0));
      },
      shape_of(64));
  EXPECT_THAT(unpublished.message, HasSubstr("published"));
  const Report unordered = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        if (thread_index() == 0) {
          initialise(barrier(0), 1);
          publish_barriers();
        }
        sync_warp();
        wait(barrier(0), 1);
        // Warp 1 comes here after warp 0, but nothing says so.
        if (warp_index() == 1) sync_named<1>(32);
      },
      shape_of(64));
  EXPECT_EQ(unordered.thread / 32, 1u);
}

TEST(Barriers, Counts) {
  const Report surplus = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        initialise_all(1);
        if (lane_index() == 0) arrive_expecting(barrier(0), 128);
      },
      shape_of(64));
  EXPECT_THAT(surplus.message, HasSubstr("surplus arrival"));
  const Report twice = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        initialise_all(2);
        if (thread_index() == 0) {
          arrive(barrier(2));
          arrive(barrier(2));
        }
      },
      shape_of(32));
  EXPECT_THAT(twice.message, HasSubstr("arrives twice"));
  expect_report(
      ReportKind::barrier_misuse, [](Arguments) { initialise_all(0); }, shape_of(32));
  expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        initialise_all(1);
        if (thread_index() == 0) initialise(barrier(0), 1);
      },
      shape_of(32));
}

TEST(Barriers, NamedOnesOrderTheirWarpsOnly) {
  expect_clean(
      [](Arguments) {
        const unsigned t = thread_index(), w = warp_index();
        if (w == 0) store(shared(layout().x[t]), 1.0f);
        if (w < 2) sync_named<1>(64);
        if (w > 0) sync_named<2>(64);
        if (w == 2) load(shared(layout().x[t - 64]));
      },
      shape_of(96));
  expect_report(
      ReportKind::data_race,
      [](Arguments) {
        const unsigned t = thread_index(), w = warp_index();
        if (w == 0) store(shared(layout().x[t]), 1.0f);
        sync_block();
        if (w == 0) store(shared(layout().x[t]), 2.0f);
        if (w < 2) sync_named<1>(64);
        if (w == 2) sync_named<2>(32);
        if (w == 2) load(shared(layout().x[t - 64]));
      },
      shape_of(96));
}

TEST(Barriers, NamedOnesHaveOneCount) {
  const Report report = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        if (warp_index() == 0)
          sync_named<3>(64);
        else
          sync_named<3>(96);
      },
      shape_of(96));
  EXPECT_THAT(report.message, HasSubstr("others are at it for"));
  expect_report(
      ReportKind::barrier_misuse, [](Arguments) { sync_named<3>(48); }, shape_of(96));
}

TEST(Barriers, ADeadlockSaysWhoWaitsWhere) {
  const Report report = expect_report(
      ReportKind::deadlock,
      [](Arguments a) {
        initialise_all(2);
        if (warp_index() == 0) {
          if (lane_index() == 0) {
            arrive_expecting(barrier(0), 256);
            copy_bulk(tile(0), a.in, 128, barrier(0));
          }
          wait(barrier(0), 0);
        } else if (warp_index() == 1) {
          if (lane_index() == 0) arrive(barrier(3));
          wait(barrier(3), 0);
        } else {
          sync_named<4>(64);
        }
      },
      shape_of(96));
  EXPECT_THAT(report.message, HasSubstr("warp 0 lanes 0xffffffff at "));
  EXPECT_THAT(report.message,
              HasSubstr("for parity 0 of the mbarrier at 0: phase 0 lacks 0 of 1 arrivals and 128 "
                        "bytes"));
  EXPECT_THAT(report.message,
              HasSubstr("for parity 0 of the mbarrier at 24: phase 0 lacks 1 of 2 arrivals and 0 "
                        "bytes"));
  EXPECT_THAT(report.message, HasSubstr("warp 2 lanes 0xffffffff at "));
  EXPECT_THAT(report.message, HasSubstr("barrier 4: 32 of 64 threads are there"));
}

TEST(Barriers, ThreadsThatHaveEndedAreNotWaitedForByTheBlock) {
  expect_clean(
      [](Arguments) {
        if (warp_index() == 1) return;
        sync_block();
      },
      shape_of(64));
}

}  // namespace
}  // namespace mlacheck::kernel_testing
