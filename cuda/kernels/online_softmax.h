#pragma once

#include "cuda/device/warp.h"
#include "cuda/kernels/sparse_attention_arguments.h"

namespace mlacheck::kernels {

inline constexpr float kMinusInfinity = -__builtin_inff();

// x - m with m the maximum so far, which is -inf before the first score that is not.
MLACHECK_DEVICE_FN float below_max(float x, float m) {
  return device::add(x, m == kMinusInfinity ? 0.0f : -m);
}

// Softmax over the tiles of a chunk, base 2, for Heads rows of an accumulator fragment: the four
// lanes of a quad hold 16 scores of a head, four each.
//
//   m' = max over the tile, if it exceeds m by more than kRaiseThreshold; else m
//   weight = 2^(score - m')                      so a weight is at most 2^kRaiseThreshold
//   sum' = sum * 2^(m - m') + ((w0 + w1) + (w2 + w3))        in each lane
//
// The maximum is raised lazily because raising it rescales the whole accumulator. A NaN score never
// raises it; it makes the sum NaN. +inf does, and then inf - inf makes the sum NaN.
template <int Heads>
class OnlineSoftmax {
 public:
  MLACHECK_DEVICE_FN void reset() {
    MLACHECK_UNROLL
    for (int h = 0; h < Heads; ++h) {
      max[h] = largest[h] = kMinusInfinity;
      sum[h] = 0.0f;
    }
  }

  // Scores (log2 units, -inf where absent) become weights. `rescale` is what everything before is
  // multiplied by; returns whether that is needed for any head of the warp, else it is not set.
  MLACHECK_DEVICE_FN bool step(float (&score)[Heads][4], float (&rescale)[Heads]) {
    float tile_max[Heads];
    bool raise = false;
    MLACHECK_UNROLL
    for (int h = 0; h < Heads; ++h) {
      float m = device::maximum(device::maximum(score[h][0], score[h][1]),
                                device::maximum(score[h][2], score[h][3]));
      m = device::maximum(m, device::shuffle_xor(m, 1));
      m = device::maximum(m, device::shuffle_xor(m, 2));
      largest[h] = device::maximum(largest[h], m);
      raise |= m > device::add(max[h], kRaiseThreshold);
      tile_max[h] = m;
      rescale[h] = 1.0f;
    }
    const bool rescaled = device::any(raise);
    if (rescaled) {
      MLACHECK_UNROLL
      for (int h = 0; h < Heads; ++h) {
        const float m = tile_max[h] > device::add(max[h], kRaiseThreshold) ? tile_max[h] : max[h];
        rescale[h] = exp2_f32(below_max(max[h], m));
        max[h] = m;
      }
    }
    MLACHECK_UNROLL
    for (int h = 0; h < Heads; ++h) {
      MLACHECK_UNROLL
      for (int i = 0; i < 4; ++i) score[h][i] = exp2_f32(below_max(score[h][i], max[h]));
      sum[h] = device::fused_multiply_add(sum[h], rescale[h],
                                          device::add(device::add(score[h][0], score[h][1]),
                                                      device::add(score[h][2], score[h][3])));
    }
    return rescaled;
  }

  // Adds up the four lanes of a head.
  MLACHECK_DEVICE_FN void finish() {
    MLACHECK_UNROLL
    for (int h = 0; h < Heads; ++h) {
      sum[h] = device::add(sum[h], device::shuffle_xor(sum[h], 1));
      sum[h] = device::add(sum[h], device::shuffle_xor(sum[h], 2));
    }
  }

  float max[Heads];      // what the weights are relative to
  float sum[Heads];      // of the weights
  float largest[Heads];  // the largest score, NaN where there is one
};

// What is known of a head after some chunks, and what it makes of the next:
//   m = max(m0, m1);  a = 2^(m0 - m);  b = 2^(m1 - m);  l = l0 a + l1 b;  out = out0 a + out1 b
struct HeadState {
  float max;
  float sum;
  float largest;
};
struct FoldWeights {
  float earlier;  // a
  float later;    // b
};

MLACHECK_DEVICE_FN FoldWeights fold(HeadState& state, const HeadState& later) {
  const float m = device::maximum(state.max, later.max);
  const FoldWeights weights{exp2_f32(below_max(state.max, m)), exp2_f32(below_max(later.max, m))};
  state.sum = device::fused_multiply_add(state.sum, weights.earlier,
                                         device::multiply(later.sum, weights.later));
  state.max = m;
  state.largest = device::maximum(state.largest, later.largest);
  return weights;
}

MLACHECK_DEVICE_FN float fold(const FoldWeights& weights, float earlier, float later) {
  return device::fused_multiply_add(earlier, weights.earlier,
                                    device::multiply(later, weights.later));
}

}  // namespace mlacheck::kernels
