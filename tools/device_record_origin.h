#pragma once

#include <filesystem>
#include <string>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/device_record.h"

namespace mlacheck {

// What a library's file says of its code.
struct DeviceCode {
  std::string what;  // that was hashed: the section .nv_fatbin, which holds the code for all GPUs,
                     // or the whole library where it has none
  std::string sha256;
  std::string compiler;  // that made it
};
// Throws std::runtime_error naming a file that is no 64-bit ELF file.
DeviceCode device_code_of(const std::filesystem::path& library);

// What this machine, the library and its file say of themselves; the GPU is "emulator" for kernels
// on host memory. Throws std::runtime_error when there is no GPU for a library that needs one.
RecordOrigin origin_of(const KernelLibrary& library);

// Whether the library's kernels want device memory.
bool is_on_device(const KernelLibrary& library);

}  // namespace mlacheck
