// Accesses to shared memory that are wrong, each beside its right form.
#include "cuda/emulator/kernel_testing.h"

namespace mlacheck::kernel_testing {
namespace {

Layout& layout() { return shared_memory<Layout>(); }

// All of x is 0, and everybody knows.
void clear_x() {
  if (warp_index() == 0)
    for (unsigned i = lane_index(); i < 256; i += 32) store(shared(layout().x[i]), 0.0f);
  sync_block();
}

TEST(SharedMemory, WarpsMustMeetBetweenAWriteAndARead) {
  const Report report = expect_report(
      ReportKind::data_race,
      [](Arguments a) {
        clear_x();
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        sync_warp();
        store(a.out + t, load(shared(layout().x[63 - t])));
      },
      shape_of(64));
  EXPECT_EQ(report.space, Space::shared);
  EXPECT_NE(report.line, 0u);
  EXPECT_THAT(report.text(), ::testing::HasSubstr("shared_memory_test.cpp"));
  EXPECT_THAT(report.text(), ::testing::HasSubstr("kernel: "));
  expect_clean(
      [](Arguments a) {
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        sync_block();
        store(a.out + t, load(shared(layout().x[63 - t])));
      },
      shape_of(64));
}

TEST(SharedMemory, WarpsMustMeetBetweenAReadAndAWrite) {
  expect_report(
      ReportKind::data_race,
      [](Arguments a) {
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        sync_block();
        store(a.out + t, load(shared(layout().x[63 - t])));
        store(shared(layout().x[t]), 2.0f);
      },
      shape_of(64));
  expect_clean(
      [](Arguments a) {
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        sync_block();
        store(a.out + t, load(shared(layout().x[63 - t])));
        sync_block();
        store(shared(layout().x[t]), 2.0f);
      },
      shape_of(64));
}

TEST(SharedMemory, LanesMustMeetToo) {
  // A shuffle makes lanes meet, but orders no memory.
  expect_report(
      ReportKind::data_race,
      [](Arguments a) {
        clear_x();
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        shuffle_xor(t, 1);
        store(a.out + t, load(shared(layout().x[t ^ 1])));
      },
      shape_of(32));
  expect_clean(
      [](Arguments a) {
        const unsigned t = thread_index();
        store(shared(layout().x[t]), 1.0f);
        sync_warp();
        store(a.out + t, load(shared(layout().x[t ^ 1])));
      },
      shape_of(32));
}

TEST(SharedMemory, LanesMustMeetBeforeTheirStoresAreLoadedAsMatrices) {
  expect_report(
      ReportKind::data_race,
      [](Arguments) {
        clear_x();
        const unsigned t = thread_index();
        store(shared(layout().x[4 * t]).as<Words4>(), {});
        FragmentA a;
        load_matrix(a, shared(layout().x[4 * t]).as<std::byte>());
      },
      shape_of(32));
  expect_clean(
      [](Arguments) {
        const unsigned t = thread_index();
        store(shared(layout().x[4 * t]).as<Words4>(), {});
        sync_warp();
        FragmentA a;
        load_matrix(a, shared(layout().x[4 * t]).as<std::byte>());
      },
      shape_of(32));
}

TEST(SharedMemory, NeighboursDoNotRace) {
  // 2 bytes each, then 4, then 16: records split and join.
  expect_clean(
      [](Arguments a) {
        const unsigned t = thread_index();
        const SharedPointer<std::uint16_t> halves = shared(layout().x[0]).as<std::uint16_t>();
        store(halves + t, static_cast<std::uint16_t>(t));
        sync_block();
        const SharedPointer<std::uint32_t> words = shared(layout().x[0]).as<std::uint32_t>();
        if (t < 32) store(words + t, load(words + t) + 1);
        sync_block();
        const SharedPointer<Words4> rows = shared(layout().x[0]).as<Words4>();
        if (t < 8) store(rows + t, load(rows + t));
        sync_block();
        store(a.out + t, static_cast<float>(load(halves + t)));
      },
      shape_of(64));
}

TEST(SharedMemory, HalvesOfAWordRaceOnlyWhereTheyOverlap) {
  expect_report(
      ReportKind::data_race,
      [](Arguments) {
        const SharedPointer<std::uint16_t> halves = shared(layout().x[0]).as<std::uint16_t>();
        const unsigned t = thread_index();
        if (t % 32 == 0) store(halves + t / 32 % 2, std::uint16_t{1});
      },
      shape_of(96));
}

TEST(SharedMemory, ItsContentIsUndefinedAtFirst) {
  const Report report = expect_report(
      ReportKind::uninitialised_read,
      [](Arguments a) {
        const unsigned t = thread_index();
        if (t != 5) store(shared(layout().x[t]), 1.0f);
        const float x = load(shared(layout().x[t]));
        store(a.out + t, x);
      },
      shape_of(32));
  EXPECT_EQ(report.thread, 5u);
  EXPECT_EQ(report.offset, offsetof(Layout, x) + 20);
}

TEST(SharedMemory, BoundsAndAlignment) {
  const Report outside = expect_report(
      ReportKind::out_of_bounds,
      [](Arguments) {
        const auto end = SharedPointer<std::byte>{sizeof(Layout)};
        if (thread_index() == 3) store(end.as<float>(), 1.0f);
      },
      shape_of(32));
  EXPECT_EQ(outside.offset, sizeof(Layout));
  EXPECT_EQ(outside.thread, 3u);
  expect_report(
      ReportKind::misaligned,
      [](Arguments) { store(SharedPointer<float>{thread_index() * 4 + 1022}, 1.0f); },
      shape_of(32));
  LaunchShape small = shape_of(32);
  small.shared_bytes = 64;
  expect_report(
      ReportKind::out_of_bounds, [](Arguments) { layout(); }, small);
}

TEST(SharedMemory, MatrixRowsHaveBoundsAndAlignment) {
  expect_report(
      ReportKind::misaligned,
      [](Arguments) {
        store(shared(layout().x[4 * thread_index()]).as<Words4>(), {});
        sync_warp();
        FragmentB b;
        const unsigned lane = lane_index();
        load_matrix(b, SharedPointer<std::byte>{shared(layout().x[0]).address +
                                                (lane == 9 ? 8u : 16 * lane)});
      },
      shape_of(32));
  expect_report(
      ReportKind::out_of_bounds,
      [](Arguments) {
        store(shared(layout().x[4 * thread_index()]).as<Words4>(), {});
        sync_warp();
        FragmentB b;
        const unsigned lane = lane_index();
        load_matrix(b, SharedPointer<std::byte>{lane == 9 ? std::uint32_t{sizeof(Layout)}
                                                          : shared(layout().x[4 * lane]).address});
      },
      shape_of(32));
}

TEST(SharedMemory, FragmentsAreUndefinedAtFirst) {
  expect_report(
      ReportKind::uninitialised_read,
      [](Arguments) {
        FragmentA a;
        FragmentB b;
        Accumulator c;
        a.set({});
        c.clear();
        mma_m16n8k16<Element::bf16>(c, a, b);
      },
      shape_of(32));
}

TEST(SharedMemory, AccumulatorsAreUndefinedAtFirst) {
  expect_report(
      ReportKind::uninitialised_read,
      [](Arguments) {
        FragmentA a;
        FragmentB b;
        Accumulator c;
        a.set({});
        store(shared(layout().x[4 * thread_index()]).as<Words4>(), {});
        sync_warp();
        load_matrix(b, shared(layout().x[4 * thread_index()]).as<std::byte>());
        mma_m16n8k16<Element::f16>(c, a, b);
      },
      shape_of(32));
}

}  // namespace
}  // namespace mlacheck::kernel_testing
