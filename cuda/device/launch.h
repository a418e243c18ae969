#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "cuda/device/platform.h"

namespace mlacheck::device {

// How a kernel is started.
struct LaunchShape {
  unsigned blocks = 1;    // along the first axis
  unsigned blocks_y = 1;  // along the second, at most 65,535
  unsigned threads = 32;  // a block
  unsigned shared_bytes = 0;
  bool may_start_early = false;  // it calls wait_for_previous_kernel
};

// What kernels run on: how many multiprocessors, and why not at all, where it cannot run them.
struct Machine {
  unsigned multiprocessors = 0;
  std::string refusal;  // empty where it can
};
Machine machine();

// Whether kernels take their tensors in device memory.
#if defined(__CUDACC__)
inline constexpr bool kOnDevice = true;
#else
inline constexpr bool kOnDevice = false;
#endif

// Where kernels run in order: made of a cudaStream_t, or of an emulator::Session (null: of one of
// its own).
class Stream;

// Starts kernel(arguments) on the stream, asynchronously on a GPU; blocks * blocks_y = 0 starts
// nothing. `name` is for reports. Throws std::runtime_error with the driver's message, or with the
// emulator's first report.
template <class Arguments>
void launch(Stream& stream, void (*kernel)(Arguments), const LaunchShape& shape,
            const std::type_identity_t<Arguments>& arguments, const char* name);

// Tells the emulator which global memory a kernel may touch; nothing on a GPU. What is not declared
// is out of bounds. `bytes` may be 0.
enum class Access { read, write, read_write };
void declare_memory(Stream& stream, const char* name, const void* data, std::uint64_t bytes,
                    Access access);

}  // namespace mlacheck::device

#if defined(__CUDACC__)
#include "cuda/device/gpu/launch.h"
#else
#include "cuda/device/emulated/launch.h"
#endif
