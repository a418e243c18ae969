#include "cuda/emulator/barrier_unit.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emulator/group.h"

namespace mlacheck::emulator {

void BarrierUnit::reset(std::uint32_t shared_bytes) {
  for (Meeting& meeting : meetings_) meeting = {};
  mbarriers_.clear();
  mbarriers_.reserve(kMaxBarriers);
  at_.assign(shared_bytes / sizeof(std::uint64_t) + 1, 0);
  copies_.clear();
}

void BarrierUnit::sync(Lane& lane, std::uint32_t number, std::uint32_t threads, const Site& site) {
  stop(lane);
  Warp& warp = *lane.warp;
  Block& block = *warp.block;
  Meeting& meeting = meetings_[number];
  if (number != 0 &&
      (threads == 0 || threads % kWarpLanes != 0 || threads > block.warp_count * kWarpLanes)) {
    report(lane, ReportKind::barrier_misuse, site,
           fmt::format("barrier {} for {} threads: expected whole warps of a block of {}", number,
                       threads, block.warp_count * kWarpLanes));
    abandon(lane);
  }
  const std::uint32_t expected = number == 0 ? block.live : threads;
  if (meeting.arrived == 0) meeting.expected = expected;
  if (meeting.expected != expected) {
    report(lane, ReportKind::barrier_misuse, site,
           fmt::format("barrier {} for {} threads; others are at it for {}", number, expected,
                       meeting.expected));
    abandon(lane);
  }
  std::uint32_t& lanes = meeting.lanes[warp.index];
  if (lanes != 0 && !(meeting.site[warp.index] == site)) {
    report(lane, ReportKind::divergence, site,
           fmt::format("barrier {}; other lanes of the warp are at it at {}", number,
                       site_name(meeting.site[warp.index])));
    abandon(lane);
  }
  lanes |= 1u << lane.index;
  meeting.site[warp.index] = site;
  if (++meeting.arrived < meeting.expected)
    return wait_as(lane, {Waiting::For::barrier, site, number, 0});
  release(block, number);
  block.group->yield(lane);
}

void BarrierUnit::release(Block& block, std::uint32_t number) {
  Meeting& meeting = meetings_[number];
  VectorClock joint;
  for (std::uint32_t i = 0; i < block.warp_count; ++i) {
    Warp& warp = block.warps[i];
    if (meeting.lanes[i] == 0) continue;
    if (meeting.lanes[i] != warp.live)
      report(warp.lanes[__builtin_ctz(meeting.lanes[i])], ReportKind::divergence, meeting.site[i],
             fmt::format("barrier {} with lanes {:#010x} of the warp, of {:#010x}", number,
                         meeting.lanes[i], warp.live));
    warp.meet();
    joint.join(warp.past);
  }
  for (std::uint32_t i = 0; i < block.warp_count; ++i) {
    Warp& warp = block.warps[i];
    if (meeting.lanes[i] == 0) continue;
    warp.past = joint;
    warp.runnable |= meeting.lanes[i];
    meeting.lanes[i] = 0;
  }
  meeting.arrived = 0;
}

void BarrierUnit::thread_ended(Block& block) {
  Meeting& meeting = meetings_[0];
  if (meeting.arrived == 0) return;
  meeting.expected = block.live;
  if (meeting.arrived == meeting.expected) release(block, 0);
}

void BarrierUnit::initialise(Lane& lane, std::uint32_t address, std::uint32_t arrivals,
                             const Site& site) {
  settle(lane);
  constexpr std::uint32_t kMostArrivals = (1u << 20) - 1;
  if (!lane.warp->block->shared.write(lane, address, sizeof(std::uint64_t), site)) abandon(lane);
  if (arrivals == 0 || arrivals > kMostArrivals) {
    report_shared(
        lane, ReportKind::barrier_misuse, address, site,
        fmt::format("a barrier of {} arrivals: expected 1 to {}", arrivals, kMostArrivals));
    abandon(lane);
  }
  std::uint8_t& at = at_[address / sizeof(std::uint64_t)];
  if (at != 0) {
    report_shared(lane, ReportKind::barrier_misuse, address, site, "a barrier is here already");
    abandon(lane);
  }
  if (mbarriers_.size() == kMaxBarriers) {
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  fmt::format("more than {} barriers in a block", kMaxBarriers));
    abandon(lane);
  }
  Mbarrier& barrier = mbarriers_.emplace_back();
  at = static_cast<std::uint8_t>(mbarriers_.size());
  barrier.address = address;
  barrier.arrivals = barrier.outstanding = arrivals;
  barrier.initialiser = &lane;
  barrier.initialised = Stamp::of(lane.warp->time, lane.index);
}

void BarrierUnit::publish(Lane& lane) {
  for (Mbarrier& barrier : mbarriers_)
    if (barrier.initialiser == &lane) barrier.published = true;
}

inline BarrierUnit::Mbarrier& BarrierUnit::find(Lane& lane, std::uint32_t address, const Site& site,
                                                bool by_copy) {
  const std::size_t word = address / sizeof(std::uint64_t);
  if (address % sizeof(std::uint64_t) != 0 || word >= at_.size() || at_[word] == 0) {
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  "no barrier has been initialised here");
    abandon(lane);
  }
  Mbarrier& barrier = mbarriers_[at_[word] - 1u];
  const auto warp = static_cast<int>(barrier.initialiser->warp->index);
  if (!lane.sees(warp, barrier.initialised))
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  fmt::format("nothing orders this use after the initialisation by thread {}",
                              barrier.initialiser->thread()));
  else if (!barrier.published && (by_copy || barrier.initialiser != &lane))
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  "the barrier has not been published (publish_barriers)");
  return barrier;
}

void BarrierUnit::arrive(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site) {
  constexpr std::int64_t kMostBytes = (1 << 20) - 1;
  settle(lane);
  Mbarrier& barrier = find(lane, address, site, false);
  barrier.bytes += bytes;
  if (barrier.bytes > kMostBytes) {
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  fmt::format("a phase expects {} bytes, at most {} can be counted", barrier.bytes,
                              kMostBytes));
    abandon(lane);
  }
  if (barrier.outstanding == 0) {
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  fmt::format("surplus arrival: phase {} has its {} and waits for {} bytes",
                              barrier.phase, barrier.arrivals, barrier.bytes));
    abandon(lane);
  }
  if (barrier.arrived[lane.thread()])
    report_shared(lane, ReportKind::barrier_misuse, address, site,
                  fmt::format("the thread arrives twice in phase {}", barrier.phase));
  barrier.arrived[lane.thread()] = true;
  lane.warp->release_by(lane, barrier.gathered);
  ++lane.warp->time;
  --barrier.outstanding;
  complete_if_done(lane, barrier, site);
  if (lane.warp->block->abandoned) throw Abandoned{};
}

void BarrierUnit::complete_if_done(Lane& lane, Mbarrier& barrier, const Site& site) {
  if (barrier.outstanding != 0 || barrier.bytes > 0) return;
  if (barrier.bytes < 0 || barrier.in_flight != 0) {
    report_shared(lane, ReportKind::barrier_misuse, barrier.address, site,
                  barrier.bytes < 0
                      ? fmt::format("{} bytes more have landed in phase {} than were expected",
                                    -barrier.bytes, barrier.phase)
                      : fmt::format("phase {} is complete, yet {} of its copies are in flight: too "
                                    "few bytes were expected",
                                    barrier.phase, barrier.in_flight));
    if (barrier.bytes < 0) return abandon_block(*lane.warp->block);
  }
  ++barrier.phase;
  const int agent = kFirstBarrierAgent + static_cast<int>(index_of(barrier));
  barrier.gathered.all[agent] = static_cast<std::int32_t>(barrier.phase);
  barrier.complete = barrier.gathered;
  barrier.outstanding = barrier.arrivals;
  barrier.arrived.reset();
  for (Lane* waiting : barrier.waiting) waiting->warp->runnable |= 1u << waiting->index;
  barrier.waiting.clear();
}

void BarrierUnit::wait(Lane& lane, std::uint32_t address, std::uint32_t parity, const Site& site) {
  settle(lane);
  Mbarrier& barrier = find(lane, address, site, false);
  const std::uint32_t index = index_of(barrier);
  while ((barrier.phase & 1u) == (parity & 1u)) {
    barrier.waiting.push_back(&lane);
    wait_as(lane, {Waiting::For::mbarrier, site, index, parity});
  }
  if (barrier.phase != 0)
    lane.warp->acquire(lane, barrier.complete, std::uint64_t{index + 1} << 32 | barrier.phase);
}

void BarrierUnit::copy(Lane& lane, std::uint32_t to, const void* from, std::uint32_t bytes,
                       std::uint32_t address, const Site& site) {
  settle(lane);
  Block& block = *lane.warp->block;
  Mbarrier& barrier = find(lane, address, site, true);
  const bool aligned =
      to % 16 == 0 && bytes % 16 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  if (!aligned) {
    report_shared(lane, ReportKind::misaligned, to, site,
                  fmt::format("a copy of {} bytes from {}: expected multiples of 16", bytes, from));
    abandon(lane);
  }
  if (std::uint64_t{to} + bytes > block.shared.size()) {
    report_shared(lane, ReportKind::out_of_bounds, to, site,
                  fmt::format("a copy of {} bytes; the block has {}", bytes, block.shared.size()));
    abandon(lane);
  }
  if (!access_global(lane, from, bytes, false, site)) abandon(lane);
  block.shared.begin_copy(lane, to, bytes, kFirstBarrierAgent + static_cast<int>(index_of(barrier)),
                          static_cast<std::int32_t>(barrier.phase) + 1, site);
  constexpr std::uint32_t kCacheLine = 64;
  for (std::uint32_t i = 0; i < bytes; i += kCacheLine)
    __builtin_prefetch(static_cast<const std::byte*>(from) + i);
  ++barrier.in_flight;
  copies_.push_back({&lane, to, from, bytes, index_of(barrier), site});
}

bool BarrierUnit::land_copy(Block& block) {
  if (copies_.empty()) return false;
  std::swap(copies_[block.next_random() % copies_.size()], copies_.back());
  const Copy copy = copies_.back();
  copies_.pop_back();
  block.shared.land_copy(copy.to, copy.bytes, copy.from);
  Mbarrier& barrier = mbarriers_[copy.mbarrier];
  --barrier.in_flight;
  barrier.bytes -= copy.bytes;
  complete_if_done(*copy.lane, barrier, copy.site);
  return true;
}

std::string BarrierUnit::pending(std::uint32_t number) const {
  const Meeting& meeting = meetings_[number];
  return fmt::format("barrier {}: {} of {} threads are there", number, meeting.arrived,
                     meeting.expected);
}

std::string BarrierUnit::pending_mbarrier(std::uint32_t index) const {
  const Mbarrier& barrier = mbarriers_[index];
  return fmt::format("the mbarrier at {}: phase {} lacks {} of {} arrivals and {} bytes",
                     barrier.address, barrier.phase, barrier.outstanding, barrier.arrivals,
                     barrier.bytes);
}

}  // namespace mlacheck::emulator
