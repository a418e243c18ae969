#pragma once

namespace mlacheck::device {

__device__ __forceinline__ void sync_warp() { __syncwarp(); }

template <class T>
__device__ __forceinline__ T shuffle(T value, unsigned from_lane) {
  static_assert(sizeof(T) == 4);
  return __shfl_sync(~0u, value, from_lane);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, unsigned lane_mask) {
  static_assert(sizeof(T) == 4);
  return __shfl_xor_sync(~0u, value, lane_mask);
}

__device__ __forceinline__ unsigned ballot(bool condition) { return __ballot_sync(~0u, condition); }
__device__ __forceinline__ bool any(bool condition) { return __any_sync(~0u, condition); }

}  // namespace mlacheck::device
