#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace mlacheck {

// GPU memory for kernels that want their tensors there, through the driver alone (libcuda.so.1,
// loaded at run time): mlacheck needs no CUDA toolkit to drive a GPU. The primary context, so that
// what a kernel library does through the runtime finds the same memory.

// The first GPU; nothing where there is none.
struct GpuInfo {
  std::string name;
  int compute_capability = 0;  // 90, 120, ...
  std::string driver;          // of CUDA, "13.0"
  std::int64_t l2_bytes = 0;
};
std::optional<GpuInfo> find_gpu();

// The GPU has not that much free.
struct DeviceMemoryShort : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory of the first GPU. All throw std::runtime_error with the driver's words.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);  // also DeviceMemoryShort
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // An address of the GPU's; 256-byte aligned.
  std::byte* data() const { return data_; }
  void fill(std::byte value);
  // Of the bytes from `offset` on.
  void copy_from(std::span<const std::byte> host, std::uint64_t offset = 0);
  void copy_to(std::span<std::byte> host, std::uint64_t offset = 0) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// Until everything that was started has ended; with what went wrong in it.
void synchronise_device();

}  // namespace mlacheck
