#include "cuda/plugin/device_memory.h"

#include <fmt/format.h>

#include "cuda/plugin/gpu_driver.h"

namespace mlacheck {

namespace {

using gpu::current_driver;
using gpu::driver;
using gpu::require;

gpu::Address address(const std::byte* data) { return reinterpret_cast<gpu::Address>(data); }

}  // namespace

std::optional<GpuInfo> find_gpu() {
  if (!driver()) return std::nullopt;
  // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, _COMPUTE_CAPABILITY_MAJOR and _MINOR
  constexpr int kL2Bytes = 38, kMajor = 75, kMinor = 76;
  char name[256] = {};
  int l2_bytes = 0, major = 0, minor = 0, version = 0;
  if (driver()->device_name(name, sizeof(name) - 1, 0) != 0 ||
      driver()->device_attribute(&l2_bytes, kL2Bytes, 0) != 0 ||
      driver()->device_attribute(&major, kMajor, 0) != 0 ||
      driver()->device_attribute(&minor, kMinor, 0) != 0 || driver()->driver_version(&version) != 0)
    return std::nullopt;
  return GpuInfo{name, major * 10 + minor,
                 fmt::format("{}.{}", version / 1000, version % 1000 / 10), l2_bytes};
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  gpu::Address allocated = 0;
  constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  const auto result = current_driver().allocate(&allocated, bytes == 0 ? 1 : bytes);
  if (result == kOutOfMemory)
    throw DeviceMemoryShort(fmt::format("{} bytes of device memory are not free", bytes));
  require(result, "cuMemAlloc");
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's addresses are integers
  data_ = reinterpret_cast<std::byte*>(allocated);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) driver()->release(address(data_));
}

void DeviceBuffer::fill(std::byte value) {
  require(current_driver().fill(address(data_), static_cast<unsigned char>(value), bytes_),
          "cuMemsetD8");
}

void DeviceBuffer::copy_from(std::span<const std::byte> host, std::uint64_t offset) {
  require(current_driver().to_device(address(data_) + offset, host.data(), host.size()),
          "cuMemcpyHtoD");
}

void DeviceBuffer::copy_to(std::span<std::byte> host, std::uint64_t offset) const {
  require(current_driver().to_host(host.data(), address(data_) + offset, host.size()),
          "cuMemcpyDtoH");
}

void synchronise_device() { require(current_driver().synchronise(), "the kernel"); }

}  // namespace mlacheck
