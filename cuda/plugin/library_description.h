#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process_pool.h"
#include "cuda/plugin/shared_memory.h"

namespace mlacheck {

// What a worker that is asked to describe its library writes into the shared block (PROTOCOL.md).
struct LibraryDescription {
  static constexpr std::size_t kMostKernels = 256;
  struct Kernel {
    union {
      mlacheck_kernel kernel;  // without pointers
      std::byte room[512];
    };
    char name[256];
    char description[1024];
  };
  std::uint32_t abi_version;
  std::uint32_t kernel_count;
  char name[256];
  char version[256];
  Kernel kernels[kMostKernels];
};

// Throws std::system_error when memory is short.
SharedMemory memory_for_description();

// In the worker. Throws std::length_error naming the text that is too long.
void describe(const KernelLibrary& library, LibraryDescription& description);

// The library as a worker finds it: checked like an opened one, with kernels that have no
// functions. Nothing of the library runs here. Its targets are calls by processes like that one.
// Throws KernelLibraryError when it is none, or when loading it crashes, ends the process or takes
// longer than its time; std::runtime_error when no process can be had.
KernelLibrary describe_in_worker(KernelService service);

}  // namespace mlacheck
