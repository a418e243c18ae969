#pragma once

#include <cstdint>

#include "cuda/device/memory.h"

namespace mlacheck::device {

// Read-modify-writes of a word in shared memory that no other thread can come between. They do not
// race with each other, and they order nothing: between one and an ordinary access by another
// thread a barrier must stand. In which order threads come is not defined; a result must not depend
// on it.

// Adds, modulo 2^32. Gives what was there before.
MLACHECK_DEVICE_FN std::uint32_t atomic_add(SharedPointer<std::uint32_t> at,
                                            std::uint32_t value MLACHECK_SITE);
// Leaves the larger of the two.
MLACHECK_DEVICE_FN void atomic_maximum(SharedPointer<std::uint32_t> at,
                                       std::uint32_t value MLACHECK_SITE);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/atomic.h"
#else
#include "cuda/device/emulated/atomic.h"
#endif
