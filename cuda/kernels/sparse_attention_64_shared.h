#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/barrier.h"
#include "cuda/device/matrix.h"
#include "cuda/kernels/online_softmax.h"
#include "cuda/kernels/ring_position.h"

namespace mlacheck::kernels {

// The shared memory of sparse_attention_64, and the barriers at which its roles meet.
struct SparseAttention64 {
  static constexpr int kHeads = 64;
  static constexpr int kThreads = 512;
  static constexpr int kStages = 3;
  static constexpr int kSlots = 2;  // of weights
  static constexpr unsigned kMathWarps = 8;
  static constexpr unsigned kSoftmaxWarps = 4;
  static constexpr unsigned kGatherWarps = 4;
  static constexpr int kSlices = 4;                     // of the 576 dims
  static constexpr int kSteps = kQkDim / kSlices / 16;  // of 16 dims in a slice

  // Q fragments of a math warp that are kept in shared memory, of its second 16 heads: registers
  // are scarcer.
  static constexpr int kSharedSteps = 5;

  struct Weights {
    device::Words4 fragment[4][32];  // of 16 heads, as A
    float rescale[kHeads];
    alignas(16) std::uint8_t rescaled[4];  // of 16 heads each: whether rescale is set
  };
  struct Shared {
    std::byte rows[kStages][kTileRows][kRowPitch];   // 56,064 bytes
    device::Floats4 scores[4][kSlices][2][32];       // 16,384: partial, of 16 heads x 8 rows
    Weights weights[kSlots];                         // 4,640
    device::Words4 q[kMathWarps][kSharedSteps][32];  // 20,480
    FoldWeights fold_weights[kHeads];                // 512
    float max[kHeads];                               // of the row's chunks so far: see HeadState
    float sum[kHeads];  // at the end of the row, the factor of its output instead
    float largest[kHeads];
    device::Barrier rows_arrived[kStages];
    device::Barrier rows_consumed[kStages];
    device::Barrier weights_written[kSlots];  // and their scores and mask were read
    device::Barrier weights_read[kSlots];
    device::Barrier scores_written[2];  // of 32 heads
    device::Barrier chunk_written;
    device::Barrier chunk_read;
    std::uint8_t masks[kStages][kGatherWarps];  // a byte of each gather warp
  };
  static_assert(sizeof(Shared) <= device::kSharedMemoryLimit);

  MLACHECK_DEVICE_FN static void initialise_barriers(Shared& s) {
    MLACHECK_UNROLL
    for (int i = 0; i < kStages; ++i) {
      device::initialise_for_warps(device::shared(s.rows_arrived[i]), kGatherWarps);
      device::initialise_for_warps(device::shared(s.rows_consumed[i]), kMathWarps);
    }
    MLACHECK_UNROLL
    for (int i = 0; i < kSlots; ++i) {
      device::initialise_for_warps(device::shared(s.weights_written[i]), kSoftmaxWarps);
      device::initialise_for_warps(device::shared(s.weights_read[i]), kMathWarps);
    }
    MLACHECK_UNROLL
    for (int half = 0; half < 2; ++half) {
      device::initialise_for_warps(device::shared(s.scores_written[half]), kMathWarps / 2);
    }
    device::initialise_for_warps(device::shared(s.chunk_written), kSoftmaxWarps);
    device::initialise_for_warps(device::shared(s.chunk_read), kMathWarps);
    device::publish_barriers();
  }
};

}  // namespace mlacheck::kernels
