#include "cuda/plugin/device_memory.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace mlacheck {

namespace {

// The driver's interface, as far as it is used here. Its ABI is stable; the names are those that
// cuda.h maps its functions to.
using Result = int;  // CUresult, 0: success
using Address = unsigned long long;

struct Driver {
  Result (*init)(unsigned);
  Result (*driver_version)(int*);
  Result (*device_count)(int*);
  Result (*device_name)(char*, int, int);
  Result (*device_attribute)(int*, int, int);
  Result (*retain_primary)(void**, int);
  Result (*set_current)(void*);
  Result (*allocate)(Address*, std::size_t);
  Result (*release)(Address);
  Result (*fill)(Address, unsigned char, std::size_t);
  Result (*to_device)(Address, const void*, std::size_t);
  Result (*to_host)(void*, Address, std::size_t);
  Result (*synchronise)();
  Result (*error_string)(Result, const char**);
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Driver> load_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Driver d = {};
  const bool complete =
      find(library, "cuInit", d.init) && find(library, "cuDriverGetVersion", d.driver_version) &&
      find(library, "cuDeviceGetCount", d.device_count) &&
      find(library, "cuDeviceGetName", d.device_name) &&
      find(library, "cuDeviceGetAttribute", d.device_attribute) &&
      find(library, "cuDevicePrimaryCtxRetain", d.retain_primary) &&
      find(library, "cuCtxSetCurrent", d.set_current) &&
      find(library, "cuMemAlloc_v2", d.allocate) && find(library, "cuMemFree_v2", d.release) &&
      find(library, "cuMemsetD8_v2", d.fill) && find(library, "cuMemcpyHtoD_v2", d.to_device) &&
      find(library, "cuMemcpyDtoH_v2", d.to_host) &&
      find(library, "cuCtxSynchronize", d.synchronise) &&
      find(library, "cuGetErrorString", d.error_string);
  if (!complete || d.init(0) != 0) return std::nullopt;
  int devices = 0;
  if (d.device_count(&devices) != 0 || devices == 0) return std::nullopt;
  return d;
}

const std::optional<Driver>& driver() {
  static const std::optional<Driver> found = load_driver();
  return found;
}

void require(Result result, const char* what) {
  if (result == 0) return;
  const char* text = nullptr;
  driver()->error_string(result, &text);
  throw std::runtime_error(fmt::format("GPU: {}: {}", what, text != nullptr ? text : "no reason"));
}

// Makes the first GPU's primary context this thread's.
const Driver& current_driver() {
  if (!driver()) throw std::runtime_error("GPU: none here");
  static void* const context = [] {
    void* primary = nullptr;
    require(driver()->retain_primary(&primary, 0), "cuDevicePrimaryCtxRetain");
    return primary;
  }();
  require(driver()->set_current(context), "cuCtxSetCurrent");
  return *driver();
}

Address address(const std::byte* data) { return reinterpret_cast<Address>(data); }

}  // namespace

std::optional<GpuInfo> find_gpu() {
  if (!driver()) return std::nullopt;
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  char name[256] = {};
  int major = 0, minor = 0, version = 0;
  if (driver()->device_name(name, sizeof(name) - 1, 0) != 0 ||
      driver()->device_attribute(&major, kMajor, 0) != 0 ||
      driver()->device_attribute(&minor, kMinor, 0) != 0 || driver()->driver_version(&version) != 0)
    return std::nullopt;
  return GpuInfo{name, major * 10 + minor,
                 fmt::format("{}.{}", version / 1000, version % 1000 / 10)};
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  Address allocated = 0;
  require(current_driver().allocate(&allocated, bytes == 0 ? 1 : bytes), "cuMemAlloc");
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

void DeviceBuffer::copy_from(std::span<const std::byte> host) {
  require(current_driver().to_device(address(data_), host.data(), host.size()), "cuMemcpyHtoD");
}

void DeviceBuffer::copy_to(std::span<std::byte> host) const {
  require(current_driver().to_host(host.data(), address(data_), host.size()), "cuMemcpyDtoH");
}

void synchronise_device() { require(current_driver().synchronise(), "the kernel"); }

}  // namespace mlacheck
