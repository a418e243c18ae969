#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/emulator/block.h"

namespace mlacheck::emulator {

struct Launch;

// What a group of blocks that were resident together leaves.
struct BlockResult {
  std::vector<Report> reports;
  std::vector<GlobalRun> runs;  // sites by value
};

// Blocks that are resident on one SM at one time: their threads as fibers of one host thread, and
// the order in which they run. A host thread keeps its group from launch to launch.
class Group {
 public:
  Group(std::uint32_t blocks, std::uint32_t warps, std::size_t stack_bytes);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  bool fits(std::uint32_t blocks, std::uint32_t warps, std::size_t stack_bytes) const;
  // Runs blocks first ... first + count - 1 of the launch to their end.
  std::vector<BlockResult> run(const Launch& launch, std::uint64_t first, std::uint32_t count);

  // Runs others until the lane can go on; it has been marked as waiting.
  void block(Lane& lane);
  // Lets others run, perhaps.
  void yield(Lane& lane);

 private:
  void thread_body(Lane& lane);
  [[nodiscard]] Lane* next(Warp* preferred);
  void go_on(Fiber& from, Lane* to);
  void report_deadlock(Block& block);

  std::uint32_t warps_;
  std::size_t stack_bytes_;
  StackPool stacks_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::uint32_t resident_ = 0;
  std::uint64_t random_ = 1;
  bool overflowed_ = false;
  Fiber main_;
};

// Ends the lane's block: all its threads end where they stand.
[[noreturn]] void abandon(Lane& lane);
void abandon_block(Block& block);

// The lane records no further matrix operation until those recorded are done: the last lane of the
// warp to stop does them. settle waits for that.
void stop_recorded(Lane& lane);
void settle_recorded(Lane& lane);
[[gnu::always_inline]] inline void stop(Lane& lane) {
  if (lane.recorded != 0) [[unlikely]]
    stop_recorded(lane);
}
[[gnu::always_inline]] inline void settle(Lane& lane) {
  if (lane.recorded != 0) [[unlikely]]
    settle_recorded(lane);
}

// Waits; throws Abandoned when the block has been given up meanwhile.
void wait_as(Lane& lane, Waiting waiting);
// The lane's collective does not fit that of the others.
[[noreturn]] void report_divergence(Lane& lane, const Site& site);
// It came to the collective, or to its end, past other collectives than the first of the others.
[[noreturn]] void report_passing(Lane& lane, const Lane& first, const Site& site);

// All lanes of the warp meet at a collective, after what they have recorded; the last one acts for
// all before the others go on.
template <class Act>
void meet_warp(Lane& lane, Collective collective, const Site& site, Act act) {
  stop(lane);
  Warp& warp = *lane.warp;
  if (warp.arrived == 0) {
    warp.collective = collective;
    warp.collective_site = site;
  } else if (warp.collective != collective || !(warp.collective_site == site)) {
    report_divergence(lane, site);
  } else if (const Lane& first = warp.lanes[__builtin_ctz(warp.arrived)];
             first.passed != lane.passed) {
    report_passing(lane, first, site);
  }
  warp.arrived |= 1u << lane.index;
  if (warp.arrived != ~0u) return wait_as(lane, {Waiting::For::collective, site, 0, 0});
  warp.arrived = 0;
  if (warp.matrices.recorded() != 0) warp.matrices.execute(lane);  // some lanes have not: reports
  act();
  warp.runnable = ~0u;
  warp.block->group->yield(lane);
}

}  // namespace mlacheck::emulator
