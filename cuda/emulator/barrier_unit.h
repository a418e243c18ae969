#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/emulator/matrix_unit.h"
#include "cuda/emulator/site.h"
#include "cuda/emulator/vector_clock.h"

namespace mlacheck::emulator {

struct Block;
struct Lane;

// A block's barriers: the block's own (number 0) and the named ones, mbarriers in shared memory,
// and the copies that mbarriers count.
class BarrierUnit {
 public:
  void reset(std::uint32_t shared_bytes);

  // Meets `threads` threads at a barrier, 1 ... 15; or all live threads at barrier 0.
  void sync(Lane& lane, std::uint32_t number, std::uint32_t threads, const Site& site);
  // A thread of the block has ended: it is no longer waited for at barrier 0.
  void thread_ended(Block& block);

  void initialise(Lane& lane, std::uint32_t address, std::uint32_t arrivals, const Site& site);
  void publish(Lane& lane);
  // Arrives, after adding `bytes` to what the phase expects.
  void arrive(Lane& lane, std::uint32_t address, std::uint32_t bytes, const Site& site);
  void wait(Lane& lane, std::uint32_t address, std::uint32_t parity, const Site& site);
  void copy(Lane& lane, std::uint32_t to, const void* from, std::uint32_t bytes,
            std::uint32_t address, const Site& site);

  // Lands one of the copies in flight, a random one. False when there is none.
  bool land_copy(Block& block);

  // What barrier `number`, or mbarrier `index`, still waits for.
  std::string pending(std::uint32_t number) const;
  std::string pending_mbarrier(std::uint32_t index) const;

 private:
  struct Meeting {
    std::uint32_t expected = 0;
    std::uint32_t arrived = 0;
    std::uint32_t lanes[kMaxWarps] = {};  // of each warp
    Site site[kMaxWarps];
  };
  struct Mbarrier {
    std::uint32_t address = 0;
    std::uint32_t arrivals = 0;     // a phase
    std::uint32_t outstanding = 0;  // of them, in this phase
    std::int64_t bytes = 0;         // expected less landed
    std::uint32_t phase = 0;
    std::uint32_t in_flight = 0;  // copies
    bool published = false;
    Lane* initialiser = nullptr;
    Stamp initialised;
    std::bitset<kMaxWarps * kWarpLanes> arrived;  // threads, in this phase
    VectorClock gathered;                         // what arrivals have released
    VectorClock complete;                         // the same when the last phase completed
    std::vector<Lane*> waiting;
  };
  struct Copy {
    Lane* lane;
    std::uint32_t to;
    const void* from;
    std::uint32_t bytes;
    std::uint32_t mbarrier;
    Site site;
  };

  void release(Block& block, std::uint32_t number);
  // The mbarrier at the address: none ends the block; reports one that the lane may not use yet.
  Mbarrier& find(Lane& lane, std::uint32_t address, const Site& site, bool by_copy);
  std::uint32_t index_of(const Mbarrier& barrier) const {
    return static_cast<std::uint32_t>(&barrier - mbarriers_.data());
  }
  void complete_if_done(Lane& lane, Mbarrier& barrier, const Site& site);

  Meeting meetings_[16];
  std::vector<Mbarrier> mbarriers_;
  std::vector<std::uint8_t> at_;  // [address / 8]: one more than the index of the mbarrier there
  std::vector<Copy> copies_;
};

}  // namespace mlacheck::emulator
