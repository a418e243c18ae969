#pragma once

#include "cuda/plugin/kernel_library.h"
#include "fixtures/device_record.h"

namespace mlacheck {

// What this machine and the library's file say of themselves: the GPU ("emulator" for kernels on
// host memory), the compiler that the file names, and the SHA-256 of its section .nv_fatbin, which
// holds the code for all GPUs; of the whole file where it has none. Throws std::runtime_error when
// there is no GPU for a library that needs one, or the file is no ELF file of this machine.
RecordOrigin origin_of(const KernelLibrary& library);

// Whether the library's kernels want device memory.
bool is_on_device(const KernelLibrary& library);

}  // namespace mlacheck
