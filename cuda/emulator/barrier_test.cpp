// Barriers and asynchronous copies: right uses, and each wrong one by its report.
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

TEST(Barriers, APipelineOfCopies) {
  expect_clean(pipeline<true, true, true>, shape_of(64));
  const auto out = out_of(pipeline<true, true, true>, shape_of(64));
  for (unsigned i = 0; i < 256; ++i) EXPECT_EQ(out[i], static_cast<float>(i));
}

TEST(Barriers, ReadersWaitForCopies) {
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

TEST(Barriers, CopiesWaitForReaders) {
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

TEST(Barriers, OneLaneArrivesForItsWarpOnlyAfterMeetingIt) {
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

TEST(Barriers, OneLaneWaitsForItsWarpOnlyIfItMeetsIt) {
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

TEST(Barriers, TheTargetOfACopyIsPoisonedUntilItLands) {
  for (const Report& report : reports_of(
           [](Arguments a) {
             initialise_all(1);
             if (thread_index() == 0) {
               arrive_expecting(barrier(0), 128);
               copy_bulk(tile(0), a.in, 128, barrier(0));
             }
             sync_warp();
             store(a.out + thread_index(), first_of(0));
             if (first_of(0) == first_of(0)) store(a.out + 5000, 0.0f);
           },
           shape_of(32)))
    EXPECT_EQ(report.kind, ReportKind::missing_wait) << report.text();
}

TEST(Barriers, CopiesHaveBoundsAndAlignment) {
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

TEST(Barriers, Bytes) {
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
        if (w < 2) sync_named<1>(64);
        if (w == 2) sync_named<2>(32);
        // Late enough to find the value, and yet nothing orders the two.
        for (int i = 0; i < 50; ++i) shuffle(t, 0);
        if (w > 1 && load(shared(layout().x[t - 64])) == 1.0f)
          for (int i = 0; i < 2; ++i) (void)i;
        if (w == 0) store(shared(layout().x[t]), 1.0f);
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
