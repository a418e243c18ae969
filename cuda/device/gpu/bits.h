#pragma once

namespace mlacheck::device {

__device__ __forceinline__ int count_ones(std::uint32_t word) { return __popc(word); }
__device__ __forceinline__ int lowest_one(std::uint32_t word) {
  return __ffs(static_cast<int>(word)) - 1;
}
__device__ __forceinline__ int bit_width(std::uint32_t word) {
  return 32 - __clz(static_cast<int>(word));
}

}  // namespace mlacheck::device
