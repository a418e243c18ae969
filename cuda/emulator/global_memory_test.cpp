// Accesses to global memory that are wrong, each beside its right form.
#include "cuda/emulator/kernel_testing.h"

namespace mlacheck::kernel_testing {
namespace {

TEST(GlobalMemory, RightUse) {
  expect_clean(
      [](Arguments a) {
        const unsigned i = block_index() * 64 + thread_index();
        store(a.out + i, load_constant(a.in + i));
        store(a.out + i, load(static_cast<const float*>(a.out + i)));
      },
      shape_of(64, 4));
}

TEST(GlobalMemory, Bounds) {
  const Report report = expect_report(
      ReportKind::out_of_bounds,
      [](Arguments a) {
        store(a.out + thread_index(), load_constant(a.in + 993 + thread_index()));
      },
      shape_of(32));
  EXPECT_EQ(report.space, Space::global);
  EXPECT_EQ(report.region, "in");
  EXPECT_EQ(report.offset, 4096u);
  EXPECT_EQ(report.thread, 31u);
}

TEST(GlobalMemory, Alignment) {
  expect_report(
      ReportKind::misaligned,
      [](Arguments a) {
        load_constant(reinterpret_cast<const Words4*>(a.in + 1 + thread_index()));
      },
      shape_of(32));
}

TEST(GlobalMemory, ReadOnly) {
  expect_report(
      ReportKind::read_only,
      [](Arguments a) { store(const_cast<float*>(a.in) + thread_index(), 1.0f); }, shape_of(32));
}

TEST(GlobalMemory, OutputsAreUndefinedAtFirst) {
  const Report report = expect_report(
      ReportKind::uninitialised_read,
      [](Arguments a) { load(static_cast<const float*>(a.out + 7)); }, shape_of(32));
  EXPECT_EQ(report.region, "out");
  EXPECT_EQ(report.offset, 28u);
}

TEST(GlobalMemory, BlocksMustNotWriteTheSame) {
  const Report report = expect_report(
      ReportKind::data_race,
      [](Arguments a) { store(a.out + block_index() * 31 + thread_index(), 1.0f); },
      shape_of(32, 3));
  EXPECT_EQ(report.block, 1u);
  EXPECT_EQ(report.offset, 4 * 31u);
  EXPECT_THAT(report.message, ::testing::HasSubstr("block (0, 0) writes"));
}

TEST(GlobalMemory, BlocksMustNotReadWhatOthersWrite) {
  SessionOptions options;
  Memory memory;
  Session session(options);
  session.declare_memory("in", memory.in.data(), sizeof memory.in, emulator::Access::read);
  session.declare_memory("out", memory.out.data(), sizeof memory.out, emulator::Access::read_write);
  EXPECT_THROW(launch_on(
                   session, memory,
                   [](Arguments a) {
                     const unsigned i = block_index() * 32 + thread_index();
                     store(a.out + i, load(static_cast<const float*>(a.out + 64 + i)));
                   },
                   shape_of(32, 4)),
               std::runtime_error);
  ASSERT_EQ(session.reports().size(), 2u);
  EXPECT_EQ(session.reports()[0].kind, ReportKind::data_race);
  EXPECT_THAT(session.reports()[0].message, ::testing::HasSubstr("reads what block (2, 0) writes"));
}

// A message through global memory from the first warp to the second; without its barrier a race.
template <bool kMeets>
void hand_over(Arguments a) {
  if (thread_index() < 32) store(a.out + thread_index(), 0.0f);
  sync_block();
  if (thread_index() < 32) store(a.out + thread_index(), 1.0f);
  if (kMeets) sync_block();
  if (thread_index() >= 32) load(static_cast<const float*>(a.out + thread_index() - 32));
}
// And back: the second warp reads what the first then writes.
template <bool kMeets>
void overwrite(Arguments a) {
  if (thread_index() < 32) store(a.out + thread_index(), 1.0f);
  sync_block();
  if (thread_index() >= 32) load(static_cast<const float*>(a.out + thread_index() - 32));
  if (kMeets) sync_block();
  if (thread_index() < 32) store(a.out + thread_index(), 2.0f);
}
// Between lanes of one warp.
template <bool kMeets>
void rotate_lanes(Arguments a) {
  store(a.out + thread_index(), 0.0f);
  sync_warp();
  store(a.out + thread_index(), 1.0f);
  if (kMeets) sync_warp();
  load(static_cast<const float*>(a.out + (thread_index() + 1) % 32));
}
// Halves of a word belong to different lanes; a read of the whole word needs both.
template <bool kMeets>
void share_words(Arguments a) {
  store(a.out + thread_index(), 0.0f);
  sync_warp();
  auto* halves = reinterpret_cast<std::uint16_t*>(a.out);
  store(halves + thread_index(), std::uint16_t{1});
  load(static_cast<const std::uint16_t*>(halves + thread_index()));
  if (kMeets) sync_warp();
  if (thread_index() % 2 == 1) load(static_cast<const float*>(a.out + thread_index() / 2));
}
// Two warps read, in turns, what a third then writes.
template <bool kMeets>
void many_readers(Arguments a) {
  if (thread_index() == 0) store(a.out, 1.0f);
  sync_block();
  for (int i = 0; i < 3 && thread_index() < 64; ++i) {
    load(static_cast<const float*>(a.out));
    sync_warp();
  }
  if (kMeets) sync_block();
  if (thread_index() == 64) store(a.out, 2.0f);
}

TEST(GlobalMemory, ThreadsOfABlockMustBeOrdered) {
  expect_clean(hand_over<true>, shape_of(64));
  expect_clean(overwrite<true>, shape_of(64));
  expect_clean(rotate_lanes<true>, shape_of(32));
  expect_clean(share_words<true>, shape_of(32));
  expect_clean(many_readers<true>, shape_of(96));
  const Report read = expect_report(ReportKind::data_race, hand_over<false>, shape_of(64));
  EXPECT_EQ(read.region, "out");
  EXPECT_THAT(read.message, ::testing::HasSubstr("by warp"));
  expect_report(ReportKind::data_race, overwrite<false>, shape_of(64));
  expect_report(ReportKind::data_race, rotate_lanes<false>, shape_of(32));
  expect_report(ReportKind::data_race, share_words<false>, shape_of(32));
  expect_report(ReportKind::data_race, many_readers<false>, shape_of(96));
}

void write_all(Arguments a) {
  wait_for_previous_kernel();
  store(a.out + block_index() * 32 + thread_index(), 1.0f);
}
void read_after_waiting(Arguments a) {
  const float early = load_constant(a.in + thread_index());
  wait_for_previous_kernel();
  add(early, load(static_cast<const float*>(a.out + thread_index())));
}
void read_before_waiting(Arguments a) {
  load(static_cast<const float*>(a.out + thread_index()));
  wait_for_previous_kernel();
}
// One thread waits, the others meet it.
void read_after_meeting(Arguments a) {
  if (thread_index() == 0) wait_for_previous_kernel();
  sync_block();
  load(static_cast<const float*>(a.out + thread_index()));
}
// No access: but the memory must be there, from one multiple of 16 to another.
void prefetch_before_waiting(Arguments a) {
  prefetch(a.out, 128);
  wait_for_previous_kernel();
  load(static_cast<const float*>(a.out));
}
void write_before_waiting(Arguments a) { store(a.out + thread_index(), 2.0f); }

ReportKind kind_of_second(Kernel second, bool may_start_early) {
  Memory memory;
  Session session;
  declare(session, memory);
  LaunchShape shape = shape_of(64, 2);
  shape.threads = 32;
  launch_on(session, memory, write_all, shape);
  shape = shape_of(32);
  shape.may_start_early = may_start_early;
  EXPECT_THROW(launch_on(session, memory, second, shape), std::runtime_error);
  return session.reports().empty() ? ReportKind::deadlock : session.reports().front().kind;
}

void expect_clean_second(Kernel second, bool may_start_early) {
  Memory memory;
  Session session;
  declare(session, memory);
  LaunchShape shape = shape_of(32, 2);
  launch_on(session, memory, write_all, shape);
  shape = shape_of(32);
  shape.may_start_early = may_start_early;
  EXPECT_NO_THROW(launch_on(session, memory, second, shape));
}

TEST(GlobalMemory, EarlyKernelsWaitForTheOneBefore) {
  expect_clean_second(read_after_waiting, true);
  expect_clean_second(read_after_meeting, true);
  expect_clean_second(prefetch_before_waiting, true);
  expect_clean_second(read_before_waiting, false);
  expect_clean_second(write_before_waiting, false);
  EXPECT_EQ(kind_of_second(read_before_waiting, true), ReportKind::early_access);
  EXPECT_EQ(kind_of_second(write_before_waiting, true), ReportKind::early_access);
}

TEST(GlobalMemory, PrefetchesOutsideAreReported) {
  expect_report(
      ReportKind::out_of_bounds, [](Arguments a) { prefetch(a.in + 1008, 128); }, shape_of(32));
  expect_report(
      ReportKind::misaligned, [](Arguments a) { prefetch(a.in + 1, 128); }, shape_of(32));
}

TEST(GlobalMemory, DeclaringOutputsAgainMakesThemUndefined) {
  Memory memory;
  Session session;
  declare(session, memory);
  launch_on(session, memory, write_all, shape_of(32));
  EXPECT_NO_THROW(launch_on(session, memory, read_after_waiting, shape_of(32)));
  declare(session, memory);
  EXPECT_THROW(launch_on(session, memory, read_after_waiting, shape_of(32)), std::runtime_error);
  EXPECT_EQ(session.reports().front().kind, ReportKind::uninitialised_read);
}

}  // namespace
}  // namespace mlacheck::kernel_testing
