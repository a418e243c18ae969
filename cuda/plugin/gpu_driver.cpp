#include "cuda/plugin/gpu_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace mlacheck::gpu {

namespace {

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
      find(library, "cuGetErrorString", d.error_string) &&
      find(library, "cuStreamCreate", d.stream_create) &&
      find(library, "cuStreamSynchronize", d.stream_synchronise) &&
      find(library, "cuStreamBeginCapture_v2", d.begin_capture) &&
      find(library, "cuStreamEndCapture", d.end_capture) &&
      find(library, "cuGraphInstantiateWithFlags", d.instantiate) &&
      find(library, "cuGraphLaunch", d.launch) && find(library, "cuEventCreate", d.event_create) &&
      find(library, "cuEventRecord", d.event_record) &&
      find(library, "cuEventElapsedTime", d.event_elapsed);
  if (!complete || d.init(0) != 0) return std::nullopt;
  int devices = 0;
  if (d.device_count(&devices) != 0 || devices == 0) return std::nullopt;
  return d;
}

}  // namespace

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

}  // namespace mlacheck::gpu
