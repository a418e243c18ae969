#pragma once

#include <cstdint>

#include "cuda/device/memory.h"
#include "cuda/device/thread.h"
#include "cuda/device/warp.h"

namespace mlacheck::device {

// All threads of the block meet.
MLACHECK_DEVICE_FN void sync_block(MLACHECK_SITE_ONLY);
// `threads` threads of the block (whole warps) meet at barrier Id, 1 ... 15.
template <unsigned Id>
MLACHECK_DEVICE_FN void sync_named(unsigned threads MLACHECK_SITE);

// A barrier in shared memory that counts arrivals and bytes of copies. A phase completes when
// `arrivals` threads have arrived and all bytes expected have landed; then the next begins. Phases
// alternate in parity: 0, 1, 0, ...
struct Barrier {
  std::uint64_t state;
};

// One thread initialises; then publish_barriers by that thread and sync_block, before anybody uses
// it.
MLACHECK_DEVICE_FN void initialise(SharedPointer<Barrier> barrier, unsigned arrivals MLACHECK_SITE);
MLACHECK_DEVICE_FN void publish_barriers(MLACHECK_SITE_ONLY);

// Whatever this thread did before, and what it saw done (sync_warp), is visible to those who wait.
MLACHECK_DEVICE_FN void arrive(SharedPointer<Barrier> barrier MLACHECK_SITE);
// Arrives, and adds bytes to what the current phase expects.
MLACHECK_DEVICE_FN void arrive_expecting(SharedPointer<Barrier> barrier,
                                         unsigned bytes MLACHECK_SITE);

// Until the phase of this parity is complete: 0 for the first, third, ... 1 at once on a new
// barrier.
MLACHECK_DEVICE_FN void wait(SharedPointer<Barrier> barrier, unsigned parity MLACHECK_SITE);

// The same in two halves: to look takes tens of clocks, which other work between the two hides.
// Only after the wait may anything be relied on.
struct Look;
MLACHECK_DEVICE_FN Look look(SharedPointer<Barrier> barrier, unsigned parity);
MLACHECK_DEVICE_FN void wait(const Look& look, SharedPointer<Barrier> barrier,
                             unsigned parity MLACHECK_SITE);

// Copies `bytes` (a multiple of 16) from global memory, asynchronously; both addresses 16-byte
// aligned. Their arrival counts at the barrier; until the phase completes the target is undefined.
MLACHECK_DEVICE_FN void copy_bulk(SharedPointer<std::byte> to, const void* from, unsigned bytes,
                                  SharedPointer<Barrier> barrier MLACHECK_SITE);
// The same, of what nobody reads again soon: in the L2 cache it makes way for everything else.
MLACHECK_DEVICE_FN void copy_bulk_once(SharedPointer<std::byte> to, const void* from,
                                       unsigned bytes,
                                       SharedPointer<Barrier> barrier MLACHECK_SITE);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/barrier.h"
#else
#include "cuda/device/emulated/barrier.h"
#endif

namespace mlacheck::device {

// The same for whole warps, each as one arrival; the last three are collectives (device/warp.h).
// arrive_warp begins with sync_warp, so that what all lanes did is visible to those who wait;
// arrive_warp_expecting makes visible what lane 0 did.
//
// compute-sanitizer's racecheck does not see the other lanes behind an elected one; a build with
// MLACHECK_RACECHECK makes every lane arrive (HACKING.md).
#if defined(MLACHECK_RACECHECK)
inline constexpr unsigned kArrivalsOfWarp = kWarpSize;
#else
inline constexpr unsigned kArrivalsOfWarp = 1;
#endif

MLACHECK_DEVICE_FN void initialise_for_warps(SharedPointer<Barrier> barrier,
                                             unsigned warps MLACHECK_SITE) {
  device::initialise(barrier, warps * kArrivalsOfWarp MLACHECK_PASS_SITE);
}

MLACHECK_DEVICE_FN void arrive_warp(SharedPointer<Barrier> barrier MLACHECK_SITE) {
  device::sync_warp(MLACHECK_PASS_SITE_ONLY);
  if (thread_index() % kWarpSize < kArrivalsOfWarp) device::arrive(barrier MLACHECK_PASS_SITE);
}

MLACHECK_DEVICE_FN void arrive_warp(SharedPointer<Barrier> first,
                                    SharedPointer<Barrier> second MLACHECK_SITE) {
  device::sync_warp(MLACHECK_PASS_SITE_ONLY);
  if (thread_index() % kWarpSize >= kArrivalsOfWarp) return;
  device::arrive(first MLACHECK_PASS_SITE);
  device::arrive(second MLACHECK_PASS_SITE);
}

MLACHECK_DEVICE_FN void arrive_warp_expecting(SharedPointer<Barrier> barrier,
                                              unsigned bytes MLACHECK_SITE) {
  if (thread_index() % kWarpSize == 0)
    device::arrive_expecting(barrier, bytes MLACHECK_PASS_SITE);
  else if (kArrivalsOfWarp > 1)
    device::arrive(barrier MLACHECK_PASS_SITE);
}

}  // namespace mlacheck::device
