// Asynchronous copies: right uses, and each wrong one by its report.
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

float first_of(int i) { return load(tile(i).as<float>() + lane_index()); }

// Warp 0 copies eight tiles through two buffers to the other warps.
template <bool WaitFull, bool MeetBeforeArrival, bool WaitEmpty>
void pipeline(Arguments a) {
  constexpr unsigned kTiles = 8;
  initialise_all(1);
  for (unsigned n = 0; n < kTiles; ++n) {
    const int stage = static_cast<int>(n % 2);
    if (warp_index() == 0) {
      if (WaitEmpty) wait(barrier(2 + stage), (n / 2 & 1) ^ 1);
      if (lane_index() == 0) {
        arrive_expecting(barrier(stage), 128);
        copy_bulk(tile(stage), a.in + 32 * n, 128, barrier(stage));
      }
    } else {
      if (WaitFull) wait(barrier(stage), n / 2 & 1);
      store(a.out + 32 * n + lane_index(), first_of(stage));
      if (MeetBeforeArrival) sync_warp();
      if (lane_index() == 0) arrive(barrier(2 + stage));
    }
  }
}

TEST(Copies, APipelineOfCopies) {
  expect_clean(pipeline<true, true, true>, shape_of(64));
  const auto out = out_of(pipeline<true, true, true>, shape_of(64));
  for (unsigned i = 0; i < 256; ++i) EXPECT_EQ(out[i], static_cast<float>(i));
}

TEST(Copies, ReadersWaitForCopies) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SessionOptions options;
    options.seed = seed;
    const auto reports = reports_of(pipeline<false, true, true>, shape_of(64), options);
    ASSERT_FALSE(reports.empty());
    // A reader may be there before the copy.
    EXPECT_TRUE(reports[0].kind == ReportKind::missing_wait ||
                reports[0].kind == ReportKind::uninitialised_read)
        << reports[0].text();
  }
}

TEST(Copies, CopiesWaitForReaders) {
  const Report report = expect_report(
      ReportKind::missing_wait,
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 128);
          copy_bulk(tile(0), a.in, 128, barrier(0));
        }
        wait(barrier(0), 0);
        first_of(0);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 128);
          copy_bulk(tile(0), a.in, 128, barrier(0));
        }
        wait(barrier(0), 1);
      },
      shape_of(64));
  EXPECT_THAT(report.message, HasSubstr("may still read"));
}

TEST(Copies, OneLaneArrivesForItsWarpOnlyAfterMeetingIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SessionOptions options;
    options.seed = seed;
    const auto reports = reports_of(pipeline<true, false, true>, shape_of(64), options);
    ASSERT_FALSE(reports.empty()) << seed;
    EXPECT_EQ(reports[0].kind, ReportKind::missing_wait) << reports[0].text();
  }
  // The same at a named barrier is a divergence: it takes whole warps.
  expect_report(
      ReportKind::divergence,
      [](Arguments) {
        if (lane_index() == 0) sync_named<1>(64);
        sync_warp();
      },
      shape_of(64));
}

TEST(Copies, OneLaneWaitsForItsWarpOnlyIfItMeetsIt) {
  expect_report(
      ReportKind::missing_wait,
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 128);
          copy_bulk(tile(0), a.in, 128, barrier(0));
          wait(barrier(0), 0);
        }
        ballot(true);
        first_of(0);
      },
      shape_of(32));
  expect_clean(
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 128);
          copy_bulk(tile(0), a.in, 128, barrier(0));
          wait(barrier(0), 0);
        }
        sync_warp();
        first_of(0);
      },
      shape_of(32));
}

TEST(Copies, TheirTargetIsPoisonedUntilTheyLand) {
  // What is read is NaN; a number would be out of bounds.
  expect_report(
      ReportKind::missing_wait,
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 128);
          copy_bulk(tile(0), a.in, 128, barrier(0));
        }
        sync_warp();
        const float x = first_of(0);
        if (x == x) store(a.out + 5000, x);
      },
      shape_of(32));
}

TEST(Copies, CopiesHaveBoundsAndAlignment) {
  expect_report(
      ReportKind::out_of_bounds,
      [](Arguments a) {
        initialise_all(1);
        copy_bulk(tile(0), a.in + 1008, 128, barrier(0));
      },
      shape_of(32));
  expect_report(
      ReportKind::out_of_bounds,
      [](Arguments a) {
        initialise_all(1);
        copy_bulk(tile(1) + 1008u, a.in, 128, barrier(0));
      },
      shape_of(32));
  expect_report(
      ReportKind::misaligned,
      [](Arguments a) {
        initialise_all(1);
        copy_bulk(tile(0), a.in + 1, 128, barrier(0));
      },
      shape_of(32));
}

TEST(Copies, Bytes) {
  const Report overflow = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments) {
        initialise_all(4);
        if (lane_index() == 0) arrive_expecting(barrier(2), 1u << 19);
      },
      shape_of(64));
  EXPECT_THAT(overflow.message, HasSubstr("at most 1048575"));
  const Report surplus = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          arrive_expecting(barrier(0), 112);
          copy_bulk(tile(0), a.in, 128, barrier(0));
        }
        wait(barrier(0), 0);
      },
      shape_of(32));
  EXPECT_THAT(surplus.message, HasSubstr("16 bytes more have landed"));
  const Report unexpected = expect_report(
      ReportKind::barrier_misuse,
      [](Arguments a) {
        initialise_all(1);
        if (thread_index() == 0) {
          copy_bulk(tile(0), a.in, 128, barrier(0));
          arrive(barrier(0));
        }
      },
      shape_of(32));
  EXPECT_THAT(unexpected.message, HasSubstr("in flight"));
}

}  // namespace
}  // namespace mlacheck::kernel_testing
