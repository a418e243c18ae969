// Launches: the same results and reports for every number of host threads, and what a test can
// change in a kernel.
#include "cuda/emulator/session.h"

#include <algorithm>
#include <array>
#include <set>

#include "cuda/emulator/kernel_testing.h"

// LeakSanitizer does not find what libomp keeps for more threads than there are cores.
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so"; }

namespace mlacheck::kernel_testing {
namespace {

using emulator::CallSite;
using emulator::Mutation;
using emulator::Primitive;
using ::testing::HasSubstr;

Layout& layout() { return shared_memory<Layout>(); }

// Reverses 64 values of each block, by way of a copy, shared memory and shuffles.
void reverse(Arguments a) {
  Layout& s = layout();
  const SharedPointer<device::Barrier> full = shared(s.barrier[0]);
  const unsigned t = thread_index(), block = block_index();
  if (t == 0) {
    initialise(full, 1);
    publish_barriers();
  }
  sync_block();
  if (t == 0) {
    arrive_expecting(full, 256);
    copy_bulk(shared(s.tile[0][0]), a.in + block * 64, 256, full);
  }
  wait(full, 0);
  const float x = load(shared(s.tile[0][0]).as<float>() + t);
  store(shared(s.x[63 - t]), x);
  sync_block();
  store(a.out + block * 64 + t, load(shared(s.x[t])));
}

// Each block has a fault of its own.
void faulty(Arguments a) {
  const unsigned t = thread_index(), block = block_index();
  if (block % 2 == 0) load(shared(layout().x[t]));
  store(a.out + block * 16 + t, 1.0f);
}

std::vector<std::string> texts(const std::vector<Report>& reports) {
  std::vector<std::string> texts;
  for (const Report& report : reports) texts.push_back(report.text());
  return texts;
}

TEST(Session, TheSameForAnyNumberOfHostThreads) {
  SessionOptions options;
  options.seed = 11;
  options.host_threads = 1;
  const auto out = out_of(reverse, shape_of(64, 16), options);
  for (unsigned i = 0; i < 1024; ++i)
    EXPECT_EQ(out[i], static_cast<float>(i / 64 * 64 + 63 - i % 64));
  const auto reports = texts(reports_of(faulty, shape_of(32, 9), options));
  EXPECT_FALSE(reports.empty());
  for (int threads : {2, 3, 8}) {
    options.host_threads = threads;
    EXPECT_EQ(out_of(reverse, shape_of(64, 16), options), out);
    EXPECT_EQ(texts(reports_of(faulty, shape_of(32, 9), options)), reports);
  }
}

TEST(Session, TheSameResultsForAnySchedule) {
  const auto out = out_of(reverse, shape_of(64, 16));
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint32_t resident : {1u, 3u}) {
      SessionOptions options;
      options.seed = seed;
      options.resident_blocks = resident;
      EXPECT_EQ(out_of(reverse, shape_of(64, 16), options), out);
    }
}

// Which block ran when.
unsigned next_turn = 0;
void note_turn(Arguments a) {
  if (thread_index() == 0) store(a.out + block_index(), static_cast<float>(next_turn++));
}

TEST(Session, ASeedHasItsOrderOfBlocks) {
  std::set<std::array<float, 1024>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (int again = 0; again < 2; ++again) {
      SessionOptions options;
      options.seed = seed;
      options.host_threads = 1;
      next_turn = 0;
      std::array<float, 1024> turns = out_of(note_turn, shape_of(32, 60), options);
      orders.insert(turns);
      std::sort(turns.begin(), turns.begin() + 60);
      for (unsigned i = 0; i < 60; ++i) ASSERT_EQ(turns[i], static_cast<float>(i));
    }
  EXPECT_GE(orders.size(), 15u);
  EXPECT_LE(orders.size(), 20u);
}

TEST(Session, ReportsDependOnTheSeedAlone) {
  SessionOptions options;
  options.seed = 3;
  EXPECT_EQ(texts(reports_of(faulty, shape_of(32, 9), options)),
            texts(reports_of(faulty, shape_of(32, 9), options)));
}

TEST(Session, KeepsTheFirstReports) {
  SessionOptions options;
  options.most_reports = 3;
  const auto all = reports_of(faulty, shape_of(32, 9));
  const auto some = reports_of(faulty, shape_of(32, 9), options);
  ASSERT_GT(all.size(), 3u);
  ASSERT_EQ(some.size(), 3u);
  EXPECT_EQ(some[0].text(), all[0].text());
  EXPECT_EQ(some[0].count, 32u);
}

TEST(Session, ShapesThatNoGpuTakes) {
  Memory memory;
  Session session;
  for (unsigned threads : {0u, 33u, 1056u})
    EXPECT_THROW(launch_on(session, memory, reverse, shape_of(threads)), std::invalid_argument);
  LaunchShape shape = shape_of(64);
  shape.blocks_y = 65'536;
  EXPECT_THROW(launch_on(session, memory, reverse, shape), std::invalid_argument);
  EXPECT_NO_THROW(launch_on(session, memory, reverse, shape_of(64, 0)));
}

TEST(Session, ThreadsThatNeedMoreStackThanTheyHave) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer sees it first";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "AddressSanitizer sees it first";
#endif
#endif
  SessionOptions options;
  options.stack_bytes = 16 * 1024;
  const auto reports = reports_of(
      [](Arguments a) {
        if (thread_index() != 31) return;  // whose stack lies above another's
        volatile float array[3072] = {};
        store(a.out, array[static_cast<unsigned>(load_constant(a.in))]);
      },
      shape_of(32), options);
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.back().kind, ReportKind::stack_overflow);
}

std::vector<CallSite> call_sites_of(Kernel kernel, const LaunchShape& shape) {
  Memory memory;
  SessionOptions options;
  options.list_call_sites = true;
  Session session(options);
  declare(session, memory);
  launch_on(session, memory, kernel, shape);
  return session.call_sites();
}

TEST(Session, ListsCallSites) {
  const std::vector<CallSite> sites = call_sites_of(reverse, shape_of(64, 2));
  std::vector<Primitive> primitives;
  for (const CallSite& site : sites) {
    EXPECT_THAT(site.file, HasSubstr("session_test.cpp"));
    primitives.push_back(site.primitive);
  }
  EXPECT_THAT(primitives,
              ::testing::ElementsAre(Primitive::initialise, Primitive::publish_barriers,
                                     Primitive::sync_block, Primitive::arrive_expecting,
                                     Primitive::copy_bulk, Primitive::wait, Primitive::sync_block));
}

std::vector<Report> reports_of_mutant(const CallSite& site, std::int32_t amount,
                                      std::uint64_t seed) {
  SessionOptions options;
  options.seed = seed;
  options.mutations = {Mutation{site, amount}};
  return reports_of(reverse, shape_of(64), options);
}

TEST(Session, EveryCallThatIsLeftOutIsMissed) {
  for (const CallSite& site : call_sites_of(reverse, shape_of(64)))
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
      EXPECT_FALSE(reports_of_mutant(site, 0, seed).empty())
          << name_of(site.primitive) << " in line " << site.line << ", seed " << seed;
}

TEST(Session, EveryArgumentThatIsOffIsMissed) {
  const auto kind = [](const CallSite& site, std::int32_t amount) {
    const auto reports = reports_of_mutant(site, amount, 1);
    EXPECT_FALSE(reports.empty()) << name_of(site.primitive) << " " << amount;
    return reports.empty() ? ReportKind::divergence : reports.front().kind;
  };
  for (const CallSite& site : call_sites_of(reverse, shape_of(64))) {
    if (site.primitive == Primitive::initialise) {
      EXPECT_EQ(kind(site, 1), ReportKind::deadlock);
      EXPECT_EQ(kind(site, -1), ReportKind::barrier_misuse);
    }
    if (site.primitive == Primitive::arrive_expecting) {
      EXPECT_EQ(kind(site, 16), ReportKind::deadlock);
      EXPECT_EQ(kind(site, -16), ReportKind::barrier_misuse);
    }
    if (site.primitive == Primitive::copy_bulk) {
      EXPECT_EQ(kind(site, 16), ReportKind::barrier_misuse);
      EXPECT_EQ(kind(site, -16), ReportKind::deadlock);
    }
    if (site.primitive == Primitive::wait) {
      // Warp 1 may even come before the copy is issued.
      EXPECT_THAT(kind(site, 1),
                  ::testing::AnyOf(ReportKind::missing_wait, ReportKind::uninitialised_read));
    }
  }
}

}  // namespace
}  // namespace mlacheck::kernel_testing
