#pragma once

namespace mlacheck::device {

__device__ __forceinline__ std::uint32_t atomic_add(SharedPointer<std::uint32_t> at,
                                                    std::uint32_t value) {
  return atomicAdd(static_cast<unsigned*>(__cvta_shared_to_generic(at.address)), value);
}

__device__ __forceinline__ void atomic_maximum(SharedPointer<std::uint32_t> at,
                                               std::uint32_t value) {
  atomicMax(static_cast<unsigned*>(__cvta_shared_to_generic(at.address)), value);
}

}  // namespace mlacheck::device
