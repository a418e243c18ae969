#include "cuda/emulator/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/emulator/launch.h"

namespace mlacheck::emulator {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) | 1u;
}

// A set bit of the mask, found from a random place on.
std::uint32_t pick(std::uint32_t mask, std::uint32_t random) {
  const std::uint32_t r = random & 31u;
  const std::uint32_t rotated = mask >> r | (r == 0 ? 0 : mask << (32 - r));
  return (static_cast<std::uint32_t>(__builtin_ctz(rotated)) + r) & 31u;
}

// Asks for what a switch to the lane will read.
void prefetch(const Lane& lane, const char* parked) {
  __builtin_prefetch(&lane);
  __builtin_prefetch(&lane.fiber);
  if (parked == nullptr) return;  // it has not run yet
  for (int offset = -128; offset <= 192; offset += 64) __builtin_prefetch(parked + offset);
}

}  // namespace

Group::Group(std::uint32_t blocks, std::uint32_t warps, std::size_t stack_bytes)
    : warps_(warps),
      stack_bytes_(stack_bytes),
      stacks_(std::size_t{blocks} * warps * kWarpLanes, stack_bytes) {
  std::size_t stack = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    Block& block = *blocks_.emplace_back(std::make_unique<Block>(warps));
    block.group = this;
    for (std::uint32_t w = 0; w < warps; ++w) {
      Warp& warp = block.warps[w];
      warp.block = &block;
      warp.index = w;
      for (std::uint32_t l = 0; l < kWarpLanes; ++l) {
        Lane& lane = warp.lanes[l];
        lane.warp = &warp;
        lane.index = l;
        stacks_.prepare(lane.fiber, stack++, [this, &lane] { thread_body(lane); });
      }
    }
  }
}

Group::~Group() {
  resident_ = 0;
  for (auto& block : blocks_)
    if (overflowed_)  // the frames to return through may be gone
      (void)block.release();
    else
      for (Warp& warp : block->warps)
        for (Lane& lane : warp.lanes) switch_fiber(main_, lane.fiber);
}

bool Group::fits(std::uint32_t blocks, std::uint32_t warps, std::size_t stack_bytes) const {
  return !overflowed_ && blocks <= blocks_.size() && warps <= warps_ && stack_bytes == stack_bytes_;
}

std::vector<BlockResult> Group::run(const Launch& launch, std::uint64_t first,
                                    std::uint32_t count) {
  resident_ = count;
  random_ = mixed(launch.seed ^ mixed(first + 1));
  for (std::uint32_t i = 0; i < count; ++i) {
    Block& block = *blocks_[i];
    block.launch = &launch;
    block.index = static_cast<std::uint32_t>((first + i) % launch.blocks);
    block.index_y = static_cast<std::uint32_t>((first + i) / launch.blocks);
    block.warp_count = launch.threads / kWarpLanes;
    block.live = launch.threads;
    block.abandoned = false;
    block.observed = launch.mutations != nullptr || launch.call_sites != nullptr;
    block.shared.reset(launch.shared_bytes, static_cast<int>(block.warp_count));
    block.barriers.reset(launch.shared_bytes);
    block.global.reset();
    block.global_shadow.reset();
    block.reports.clear();
    block.last_take = {};
    block.sites.clear();
    block.random = mixed(random_ + i);
    for (std::uint32_t w = 0; w < block.warp_count; ++w) {
      block.warps[w].reset();
      block.warps[w].registers = block.launch_registers();
    }
  }
  go_on(main_, next(nullptr));

  std::vector<BlockResult> results(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Block& block = *blocks_[i];
    const std::size_t first_stack = std::size_t{i} * warps_ * kWarpLanes;
    for (std::uint32_t t = 0; t < launch.threads; ++t)
      if (!stacks_.intact(first_stack + t)) {
        overflowed_ = true;
        report(block.warps[t / kWarpLanes].lanes[t % kWarpLanes], ReportKind::stack_overflow, {},
               fmt::format("the thread needs more than {} bytes of stack", stack_bytes_));
      }
    if (!block.abandoned) block.check_registers();
    results[i] = {block.reports, block.global.take(block)};
  }
  return results;
}

// Runs the thread in one block after the other, until the group ends.
void Group::thread_body(Lane& lane) {
  while (resident_ != 0) {
    Block& block = *lane.warp->block;
    try {
      if (!block.abandoned) {
        block.launch->body(block.launch->arguments);
        settle(lane);
        if (const std::uint32_t ended = ~lane.warp->live; ended != 0)
          if (const Lane& first = lane.warp->lanes[__builtin_ctz(ended)];
              first.passed != lane.passed)
            report_passing(lane, first, {});
      }
    } catch (const Abandoned&) {
      block.abandoned = true;
    }
    lane.warp->live &= ~(1u << lane.index);
    lane.warp->runnable &= ~(1u << lane.index);
    --block.live;
    if (!block.abandoned) block.barriers.thread_ended(block);
    go_on(lane.fiber, next(lane.warp));
  }
}

Lane* Group::next(Warp* preferred) {
  // What a given up block still completes may wake threads that have ended.
  const auto ready_lanes = [](const Warp& warp) { return warp.runnable & warp.live; };
  const auto lane_of = [&](Warp& warp) {
    return &warp.lanes[pick(ready_lanes(warp), warp.block->next_random())];
  };
  if (preferred != nullptr && ready_lanes(*preferred) != 0) {
    const std::uint32_t ready = ready_lanes(*preferred);
    const bool as_planned = (ready >> preferred->planned & 1u) != 0;
    Lane& lane = as_planned ? preferred->lanes[preferred->planned] : *lane_of(*preferred);
    // The next one's stack is far from the caches: it is asked for while this lane runs.
    const std::uint32_t rest = ready & ~(1u << lane.index);
    if (rest != 0) {
      preferred->planned = pick(rest, preferred->block->next_random());
      prefetch(preferred->lanes[preferred->planned], preferred->parked[preferred->planned]);
    }
    return &lane;
  }
  for (;;) {
    random_ = mixed(random_);
    bool any_live = false;
    const auto start = static_cast<std::uint32_t>(random_ >> 32) % resident_;
    for (std::uint32_t i = 0; i < resident_; ++i) {
      Block& block = *blocks_[(start + i) % resident_];
      any_live = any_live || block.live != 0;
      std::uint32_t ready = 0;
      for (std::uint32_t w = 0; w < block.warp_count; ++w)
        ready |= (ready_lanes(block.warps[w]) != 0 ? 1u : 0u) << w;
      if (ready != 0) return lane_of(block.warps[pick(ready, block.next_random())]);
    }
    if (!any_live) return nullptr;
    bool landed = false;
    for (std::uint32_t i = 0; i < resident_ && !landed; ++i) {
      Block& block = *blocks_[(start + i) % resident_];
      landed = block.live != 0 && block.barriers.land_copy(block);
    }
    if (landed) continue;
    for (std::uint32_t i = 0; i < resident_; ++i)
      if (blocks_[i]->live != 0) {
        report_deadlock(*blocks_[i]);
        abandon_block(*blocks_[i]);
      }
  }
}

[[gnu::always_inline]] inline void Group::go_on(Fiber& from, Lane* to) {
  Fiber& fiber = to == nullptr ? main_ : to->fiber;
  if (&fiber == &from) return;
  current_lane = to;
  switch_fiber(from, fiber);
}

void Group::block(Lane& lane) {
  lane.warp->parked[lane.index] = static_cast<const char*>(__builtin_frame_address(0));
  go_on(lane.fiber, next(lane.warp));
}

void Group::yield(Lane& lane) {
  const std::uint32_t random = lane.warp->block->next_random();
  if (random % 8 == 0) {
    go_on(lane.fiber, next(nullptr));
    if (lane.warp->block->abandoned) throw Abandoned{};
  }
}

void abandon_block(Block& block) {
  block.abandoned = true;
  for (std::uint32_t w = 0; w < block.warp_count; ++w)
    block.warps[w].runnable = block.warps[w].live;
}

void abandon(Lane& lane) {
  abandon_block(*lane.warp->block);
  throw Abandoned{};
}

void stop_recorded(Lane& lane) {
  Warp& warp = *lane.warp;
  warp.stopped |= 1u << lane.index;
  if (warp.stopped != ~0u) return;
  warp.matrices.execute(lane);
  warp.stopped = 0;
  warp.runnable |= warp.settling;
  warp.settling = 0;
}

void settle_recorded(Lane& lane) {
  stop_recorded(lane);
  if (lane.recorded == 0) return;
  lane.warp->settling |= 1u << lane.index;
  wait_as(lane, {Waiting::For::operations, {}, 0, 0});
}

void wait_as(Lane& lane, Waiting waiting) {
  lane.waiting = waiting;
  lane.warp->runnable &= ~(1u << lane.index);
  lane.warp->block->group->block(lane);
  lane.waiting.what = Waiting::For::nothing;
  if (lane.warp->block->abandoned) throw Abandoned{};
}

void report_divergence(Lane& lane, const Site& site) {
  const Warp& warp = *lane.warp;
  report(lane, ReportKind::divergence, site,
         fmt::format("lanes {:#010x} of the warp are at another collective, at {}", warp.arrived,
                     site_name(warp.collective_site)));
  abandon(lane);
}

void report_passing(Lane& lane, const Lane& first, const Site& site) {
  const auto last_call = [](const Lane& one) {
    return one.passed == 0 ? std::string("none") : site_name(one.passed_last);
  };
  report(lane, ReportKind::divergence, site.line != 0 ? site : lane.passed_last,
         fmt::format("lane_index or warp_index was not called by all lanes of the warp: the last "
                     "call of this one is {}, of lane {} {}",
                     last_call(lane), first.index, last_call(first)));
  abandon(lane);
}

void Group::report_deadlock(Block& block) {
  std::string text;
  Lane* first = nullptr;
  Lane* diverged = nullptr;
  for (std::uint32_t w = 0; w < block.warp_count; ++w) {
    Warp& warp = block.warps[w];
    for (std::uint32_t rest = warp.live; rest != 0;) {
      Lane& lane = warp.lanes[__builtin_ctz(rest)];
      const Waiting& waiting = lane.waiting;
      std::uint32_t same = 0;
      for (std::uint32_t l = 0; l < kWarpLanes; ++l)
        if ((rest >> l & 1u) != 0 && warp.lanes[l].waiting.what == waiting.what &&
            warp.lanes[l].waiting.site == waiting.site &&
            warp.lanes[l].waiting.barrier == waiting.barrier)
          same |= 1u << l;
      rest &= ~same;
      if (first == nullptr) first = &lane;
      Site site = waiting.site;
      std::string what;
      if (waiting.what == Waiting::For::barrier) {
        what = block.barriers.pending(waiting.barrier);
      } else if (waiting.what == Waiting::For::mbarrier) {
        what = fmt::format("parity {} of {}", waiting.parity,
                           block.barriers.pending_mbarrier(waiting.barrier));
      } else {
        if (waiting.what == Waiting::For::operations) site = warp.matrices.last_site();
        what = "the other lanes of the warp";
        if (diverged == nullptr) diverged = &lane;
      }
      text += fmt::format("; warp {} lanes {:#010x} at {} for {}", w, same, site_name(site), what);
    }
  }
  Lane& lane = diverged != nullptr ? *diverged : *first;
  const Site site = lane.waiting.what == Waiting::For::operations ? lane.warp->matrices.last_site()
                                                                  : lane.waiting.site;
  report(lane, diverged != nullptr ? ReportKind::divergence : ReportKind::deadlock, site,
         (diverged != nullptr ? "the other lanes never come" : "every thread waits") + text);
}

}  // namespace mlacheck::emulator
