#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace mlacheck::device {

inline Machine machine() {
  Machine found;
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  const auto ask = [&](int* value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(value, attribute, device);
  };
  ask(&major, cudaDevAttrComputeCapabilityMajor);
  ask(&minor, cudaDevAttrComputeCapabilityMinor);
  ask(&multiprocessors, cudaDevAttrMultiProcessorCount);
  found.multiprocessors = static_cast<unsigned>(multiprocessors);
  if (error != cudaSuccess)
    found.refusal = std::string("no GPU: ") + cudaGetErrorString(error);
  else if (major * 10 + minor != 90 && major != 12)
    found.refusal = "compute capability " + std::to_string(major) + "." + std::to_string(minor) +
                    ": 9.0, 12.0 and 12.1";
  return found;
}

class Stream {
 public:
  explicit Stream(void* stream) : handle_(static_cast<cudaStream_t>(stream)) {}
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_;
};

namespace detail {

inline void require(cudaError_t error, const char* kernel, const char* call) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(kernel) + ": " + call + ": " + cudaGetErrorString(error));
}

}  // namespace detail

template <class Arguments>
void launch(Stream& stream, void (*kernel)(Arguments), const LaunchShape& shape,
            const std::type_identity_t<Arguments>& arguments, const char* name) {
  if (shape.blocks == 0 || shape.blocks_y == 0) return;
  constexpr unsigned kWithoutAsking = 48 * 1024;
  if (shape.shared_bytes > kWithoutAsking)
    detail::require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shape.shared_bytes)),
                    name, "cudaFuncSetAttribute");
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.blocks, shape.blocks_y);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream.handle();
  config.attrs = &early;
  config.numAttrs = shape.may_start_early ? 1 : 0;
  detail::require(cudaLaunchKernelEx(&config, kernel, arguments), name, "cudaLaunchKernelEx");
}

inline void declare_memory(Stream&, const char*, const void*, std::uint64_t, Access) {}

}  // namespace mlacheck::device
