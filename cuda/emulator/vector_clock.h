#pragma once

#include <algorithm>
#include <cstdint>

namespace mlacheck::emulator {

// Who can make memory visible: the warps of a block, its mbarriers (for the copies that they
// count), and the kernel before.
inline constexpr int kMaxWarps = 32;
inline constexpr int kMaxBarriers = 63;
inline constexpr int kFirstBarrierAgent = kMaxWarps;
inline constexpr int kPreviousKernelAgent = kMaxWarps + kMaxBarriers;
inline constexpr int kAgents = kPreviousKernelAgent + 1;

// A lane code for "several lanes at one time of their warp".
inline constexpr std::uint32_t kSeveralLanes = 32;

// A time of an agent and the lane of it: 26 and 6 bits.
struct Stamp {
  std::uint32_t bits = 0;

  static Stamp of(std::int32_t time, std::uint32_t lane) {
    return {static_cast<std::uint32_t>(time) << 6 | lane};
  }
  std::int32_t time() const { return static_cast<std::int32_t>(bits >> 6); }
  std::uint32_t lane() const { return bits & 63u; }
};

// What happened before now: of each agent all that it did up to a time and, of a warp, what some
// lanes did up to a later time (a lane may arrive at a barrier alone).
struct VectorClock {
  alignas(64) std::int32_t all[kAgents] = {};
  std::uint32_t partial = 0;  // warps for which the next two hold something
  std::uint32_t lanes[kMaxWarps] = {};
  std::int32_t lanes_until[kMaxWarps] = {};

  bool covers(int agent, Stamp stamp) const {
    if (stamp.time() <= all[agent]) return true;
    return agent < kMaxWarps && (partial >> agent & 1u) != 0 && stamp.lane() < kSeveralLanes &&
           stamp.time() <= lanes_until[agent] && (lanes[agent] >> stamp.lane() & 1u) != 0;
  }

  void add_lanes(int warp, std::uint32_t mask, std::int32_t until) {
    if (until <= all[warp]) return;
    if ((partial >> warp & 1u) == 0) {
      lanes[warp] = 0;
      lanes_until[warp] = 0;
    }
    lanes[warp] |= mask;
    lanes_until[warp] = std::max(lanes_until[warp], until);
    partial |= 1u << warp;
    if (lanes[warp] == ~0u) {
      all[warp] = lanes_until[warp];
      partial &= ~(1u << warp);
    }
  }

  void join(const VectorClock& other) {
    for (int i = 0; i < kAgents; ++i) all[i] = std::max(all[i], other.all[i]);
    for (std::uint32_t rest = other.partial; rest != 0; rest &= rest - 1) {
      const int warp = __builtin_ctz(rest);
      add_lanes(warp, other.lanes[warp], other.lanes_until[warp]);
    }
  }
};

}  // namespace mlacheck::emulator
