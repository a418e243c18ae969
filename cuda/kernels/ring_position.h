#pragma once

#include "cuda/device/platform.h"

namespace mlacheck::kernels {

// Where a reader or a writer of a ring of kSize places stands: the place, and the parity of the
// barrier phase that belongs to this round.
template <unsigned kSize>
struct RingPosition {
  unsigned place = 0;
  unsigned parity = 0;

  MLACHECK_DEVICE_FN void advance() {
    if (++place == kSize) {
      place = 0;
      parity ^= 1;
    }
  }
};

}  // namespace mlacheck::kernels
