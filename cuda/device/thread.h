#pragma once

#include "cuda/device/platform.h"

namespace mlacheck::device {

// Where this thread stands. lane_index() and warp_index() are collectives (device/warp.h);
// warp_index() is the same register in all lanes.
MLACHECK_DEVICE_FN unsigned thread_index();
MLACHECK_DEVICE_FN unsigned lane_index(MLACHECK_SITE_ONLY);
MLACHECK_DEVICE_FN unsigned warp_index(MLACHECK_SITE_ONLY);
MLACHECK_DEVICE_FN unsigned block_index();    // of the grid's first axis
MLACHECK_DEVICE_FN unsigned block_index_y();  // of its second
MLACHECK_DEVICE_FN unsigned grid_blocks();    // blocks along the first axis

// Blocks that were launched with the permission to start early (device/launch.h): nothing that the
// kernel before writes may be read, and nothing that it reads written, before this returns.
MLACHECK_DEVICE_FN void wait_for_previous_kernel(MLACHECK_SITE_ONLY);
// The next kernel may start now, if it has that permission. It still waits before it reads.
MLACHECK_DEVICE_FN void let_next_kernel_start(MLACHECK_SITE_ONLY);

// The same value, but what is computed from it is computed here, not kept from where it was last.
MLACHECK_DEVICE_FN unsigned anew(unsigned value);

// Register redistribution between the four-warp groups of a block; all warps of a group call it.
// Registers: a multiple of 8 in [24, 256].
template <unsigned Registers>
MLACHECK_DEVICE_FN void take_registers(MLACHECK_SITE_ONLY);
template <unsigned Registers>
MLACHECK_DEVICE_FN void give_registers(MLACHECK_SITE_ONLY);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/thread.h"
#else
#include "cuda/device/emulated/thread.h"
#endif
