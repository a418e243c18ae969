#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/emulator/barrier_unit.h"
#include "cuda/emulator/fiber.h"
#include "cuda/emulator/global_memory.h"
#include "cuda/emulator/global_shadow.h"
#include "cuda/emulator/matrix_unit.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/shared_memory.h"
#include "cuda/emulator/site.h"
#include "cuda/emulator/vector_clock.h"

namespace mlacheck::emulator {

struct Block;
struct Launch;
struct Warp;
class Group;

// Thrown through a thread that cannot go on; caught where it began.
struct Abandoned {};

// What a thread waits for.
struct Waiting {
  enum class For : std::uint8_t { nothing, collective, operations, barrier, mbarrier };
  For what = For::nothing;
  Site site;
  std::uint32_t barrier = 0;  // number, or the mbarrier's index
  std::uint32_t parity = 0;
};

// A CUDA thread.
struct alignas(64) Lane {
  Warp* warp = nullptr;
  std::uint32_t index = 0;     // in the warp
  std::uint32_t recorded = 0;  // matrix operations that it has recorded and the warp not executed
  std::uint32_t a_alive = 0;   // its fragments and accumulators
  std::uint32_t b_alive = 0;
  std::uint32_t c_alive = 0;
  std::uint32_t passed = 0;  // of all collectives that it passed without waiting for others
  Site passed_last;
  Waiting waiting;
  Fiber fiber;

  std::uint32_t thread() const;
  // Whether what the stamp says happened before this thread's next step.
  bool sees(int agent, Stamp stamp) const;
};

enum class Collective : std::uint8_t { none, sync, shuffle, ballot, registers };

struct alignas(64) Warp {
  Block* block = nullptr;
  std::uint32_t index = 0;
  std::uint32_t live = 0;               // lanes that have not ended
  std::uint32_t runnable = 0;           // lanes that wait for nothing
  std::uint32_t planned = 0;            // the lane that is to run after the running one
  const char* parked[kWarpLanes] = {};  // where the stacks of lanes that do not run end

  std::uint32_t stopped = 0;   // lanes that wait, somewhere, for what they have recorded
  std::uint32_t settling = 0;  // and for nothing else

  // The collective that lanes are at.
  Collective collective = Collective::none;
  std::uint32_t arrived = 0;
  Site collective_site;
  std::uint32_t value[kWarpLanes] = {};
  std::uint32_t from[kWarpLanes] = {};
  std::uint32_t result[kWarpLanes] = {};

  // Time advances whenever this warp, or a lane of it, lets others see what it did. All lanes have
  // seen what each did before `synced`: past.all[index] is synced - 1.
  std::int32_t time = 1;
  std::int32_t synced = 1;
  VectorClock past;
  // What single lanes have seen at barriers, until the warp meets or all have.
  VectorClock ahead;
  std::uint32_t ahead_lanes = 0;
  std::uint64_t ahead_of = 0;  // the mbarrier's phase that `ahead` holds

  std::uint32_t registers = 0;  // of each lane

  MatrixUnit matrices;
  Lane lanes[kWarpLanes];

  void reset();
  // All lanes have met: what each did and saw, all have seen.
  void meet();
  // Adds what a lane has done and seen.
  void release_by(const Lane& lane, VectorClock& clock) const;
  // A lane sees what a phase of an mbarrier has made visible; `phase` names it uniquely.
  void acquire(const Lane& lane, const VectorClock& clock, std::uint64_t phase);
};

// Blocks of a launch run one by one, or in groups that are resident together.
struct Block {
  Group* group = nullptr;
  const Launch* launch = nullptr;
  std::uint32_t index = 0;  // of the grid's first axis
  std::uint32_t index_y = 0;
  std::uint32_t warp_count = 0;
  std::uint32_t live = 0;  // threads
  bool abandoned = false;  // its threads end where they stand
  SharedMemory shared;
  BarrierUnit barriers;
  GlobalLog global;
  GlobalShadow global_shadow;
  // Not zeroed: most of a warp is registers, which few kernels use all of.
  std::unique_ptr<Warp[]> warp_memory;
  std::span<Warp> warps;
  std::vector<Report> reports;
  std::vector<Site> sites;  // of writes, by index
  std::uint16_t site_cache[256] = {};
  std::uint64_t random = 1;
  bool observed = false;  // calls of primitives are listed or changed
  struct {
    Lane* lane = nullptr;
    Site site;
  } last_take;  // of registers

  explicit Block(std::uint32_t most_warps)
      : warp_memory(std::make_unique_for_overwrite<Warp[]>(most_warps)),
        warps(warp_memory.get(), most_warps) {}
  std::uint32_t next_random();
  // Reports warps that together took more registers than others gave: a GPU's would wait for ever.
  void check_registers();
  // Of each thread at the start, where the block fills a multiprocessor.
  std::uint32_t launch_registers() const { return 65'536 / (warp_count * kWarpLanes) / 8 * 8; }
};

inline std::uint32_t Lane::thread() const { return warp->index * kWarpLanes + index; }

inline bool Lane::sees(int agent, Stamp stamp) const {
  if (warp->past.covers(agent, stamp)) return true;
  if (agent == static_cast<int>(warp->index) && stamp.lane() == index) return true;
  return (warp->ahead_lanes >> index & 1u) != 0 && warp->ahead.covers(agent, stamp);
}

// The last access of a warp, after one more by the lane, or by all its lanes together.
inline Stamp noted(Stamp last, const Lane& lane, bool whole_warp) {
  const Warp& warp = *lane.warp;
  const bool also_others = last.time() >= warp.synced && last.lane() != lane.index;
  return Stamp::of(warp.time, whole_warp || also_others ? kSeveralLanes : lane.index);
}

inline std::uint32_t Block::next_random() {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  return static_cast<std::uint32_t>(random >> 32);
}

// The running thread.
extern constinit thread_local Lane* current_lane [[gnu::tls_model("initial-exec")]];

// Notes a report of the lane's block; the same kind at the same place is counted, not repeated.
void report(Lane& lane, ReportKind kind, Space space, const std::string& region,
            std::uint64_t offset, const Site& site, const std::string& message);
void report(Lane& lane, ReportKind kind, const Site& site, const std::string& message);
void report_shared(Lane& lane, ReportKind kind, std::uint32_t address, const Site& site,
                   const std::string& message);
void report_global(Lane& lane, ReportKind kind, std::uintptr_t address, const Site& site,
                   const std::string& message);

// Who it was, for reports.
std::string lane_name(Stamp stamp);

// The site's index in Block::sites and what it reads as in a report.
std::uint16_t site_index(Lane& lane, const Site& site);
std::string site_name(Lane& lane, std::uint16_t index);
std::string site_name(const Site& site);

}  // namespace mlacheck::emulator
