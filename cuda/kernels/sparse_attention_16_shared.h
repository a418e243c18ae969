#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/barrier.h"
#include "cuda/device/matrix.h"
#include "cuda/kernels/online_softmax.h"
#include "cuda/kernels/ring_position.h"

namespace mlacheck::kernels {

// The shared memory of sparse_attention_16, and the barriers at which its roles meet.
struct SparseAttention16 {
  static constexpr int kHeads = 16;
  static constexpr int kThreads = 256;
  static constexpr int kStages = 5;
  static constexpr int kSlots = 3;
  static constexpr unsigned kScoreWarps = 2;
  static constexpr unsigned kValueWarps = 4;
  static constexpr unsigned kGatherWarps = 2;
  static constexpr int kSteps = kQkDim / kScoreWarps / 16;  // of 16 dims of a score warp

  // What the score warps tell the value warps after a tile, and after a chunk.
  struct Weights {
    device::Words2 fragment[kScoreWarps][32];  // of 8 heads, half of A
    float rescale[kHeads];
    device::Words2 rescaled;  // of 8 heads each: whether rescale is set
  };
  struct ChunkEnd {
    FoldWeights fold_weights[kHeads];
    float factor[kHeads];  // of the output, at the end of the row
  };
  struct Shared {
    std::byte rows[kStages][kTileRows][kRowPitch];  // 93,440 bytes
    device::Floats4 exchange[2][kScoreWarps][32];   // 2,048: partial, for the other score warp
    Weights weights[kSlots];                        // 1,752
    ChunkEnd chunk_end;                             // 192
    device::Barrier rows_arrived[kStages];
    device::Barrier rows_consumed[kStages];
    device::Barrier weights_written[kSlots];
    device::Barrier weights_read[kSlots];
    device::Barrier chunk_written;
    device::Barrier chunk_read;
    std::uint8_t masks[kStages][kGatherWarps];
  };
  static_assert(sizeof(Shared) <= device::kSharedMemoryLimit);

  MLACHECK_DEVICE_FN static void initialise_barriers(Shared& s) {
    MLACHECK_UNROLL
    for (int i = 0; i < kStages; ++i) {
      device::initialise_for_warps(device::shared(s.rows_arrived[i]), kGatherWarps);
      device::initialise_for_warps(device::shared(s.rows_consumed[i]), kValueWarps);
    }
    MLACHECK_UNROLL
    for (int i = 0; i < kSlots; ++i) {
      device::initialise_for_warps(device::shared(s.weights_written[i]), kScoreWarps);
      device::initialise_for_warps(device::shared(s.weights_read[i]), kValueWarps);
    }
    device::initialise_for_warps(device::shared(s.chunk_written), kScoreWarps);
    device::initialise_for_warps(device::shared(s.chunk_read), kValueWarps);
    device::publish_barriers();
  }
};

}  // namespace mlacheck::kernels
