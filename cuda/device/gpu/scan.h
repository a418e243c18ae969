#pragma once

namespace mlacheck::device {

// Two instructions a step: the shuffle says itself whether a lane has another so far before it.
__device__ __forceinline__ std::uint32_t sum_to_lane(std::uint32_t own) {
  std::uint32_t sum = own;
#pragma unroll
  for (unsigned distance = 1; distance < kWarpSize; distance *= 2)
    asm volatile(
        "{ .reg .pred p; .reg .u32 other;\n"
        "shfl.sync.up.b32 other|p, %0, %1, 0, 0xffffffff;\n"
        "@p add.u32 %0, %0, other; }"
        : "+r"(sum)
        : "r"(distance));
  return sum;
}

__device__ __forceinline__ std::uint32_t maximum_of_lanes(std::uint32_t own) {
  return __reduce_max_sync(~0u, own);
}

}  // namespace mlacheck::device
