#pragma once

namespace mlacheck::device {

__device__ __forceinline__ unsigned thread_index() { return threadIdx.x; }

// A shuffle, or ptxas computes it again at each use; a reduction, so that the warp's number is
// known to be the same in all lanes.
__device__ __forceinline__ unsigned lane_index() {
  return __shfl_sync(~0u, threadIdx.x % 32, threadIdx.x % 32);
}
__device__ __forceinline__ unsigned warp_index() { return __reduce_or_sync(~0u, threadIdx.x / 32); }

__device__ __forceinline__ unsigned block_index() { return blockIdx.x; }
__device__ __forceinline__ unsigned block_index_y() { return blockIdx.y; }
__device__ __forceinline__ unsigned grid_blocks() { return gridDim.x; }

__device__ __forceinline__ void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__device__ __forceinline__ unsigned anew(unsigned value) {
  asm volatile("" : "+r"(value));
  return value;
}

template <unsigned Registers>
__device__ __forceinline__ void take_registers() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <unsigned Registers>
__device__ __forceinline__ void give_registers() {
  static_assert(Registers % 8 == 0 && Registers >= 24 && Registers <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace mlacheck::device
