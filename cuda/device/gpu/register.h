#pragma once

namespace mlacheck::device {

// Grids have two axes (device/launch.h): the third index is 0, which ptxas does not know.
__device__ __forceinline__ std::uint32_t own_register(std::uint32_t value) {
  return value | blockIdx.z;
}

}  // namespace mlacheck::device
