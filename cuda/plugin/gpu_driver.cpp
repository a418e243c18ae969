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

void* open_driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

std::optional<Driver> load_driver() {
  void* library = open_driver();
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

TimingDriver timing_driver() {
  void* library = open_driver();
  if (library == nullptr) throw std::runtime_error("GPU: none here");
  const auto need = [&](const char* name, auto& function) {
    if (!find(library, name, function))
      throw std::runtime_error(fmt::format("GPU: this driver has no {}", name));
  };
  TimingDriver d = {};
  need("cuStreamCreate", d.stream_create);
  need("cuStreamSynchronize", d.stream_synchronise);
  need("cuStreamBeginCapture_v2", d.begin_capture);
  need("cuStreamEndCapture", d.end_capture);
  need("cuGraphInstantiateWithFlags", d.instantiate);
  need("cuGraphLaunch", d.launch);
  need("cuEventCreate", d.event_create);
  need("cuEventRecord", d.event_record);
  need("cuEventElapsedTime", d.event_elapsed);
  return d;
}

}  // namespace mlacheck::gpu
