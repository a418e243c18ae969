#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "cuda/plugin/kernel_library.h"
#include "cuda/plugin/kernel_process_pool.h"

namespace mlacheck {

// This program's own file: what a kernel worker runs.
std::filesystem::path this_program();

// The project's own kernel libraries: beside the program in a build tree, under lib/mlacheck when
// installed. Throw std::runtime_error naming both places when it stands in neither.
std::filesystem::path reference_library();  // the reference
std::filesystem::path emulated_library();   // the GPU kernels on the emulator
std::filesystem::path museum_library();     // kernels with planted faults
// The GPU kernels themselves; nothing where they were not built.
std::optional<std::filesystem::path> gpu_library();
// What bench measures them by; with them.
std::optional<std::filesystem::path> floors_library();

// A kernel library, a shared object or a file of Python (tools/serve_kernels.py), served by other
// processes; each call has so long. Throws like describe_in_worker.
KernelLibrary load_library(const std::filesystem::path& path,
                           std::chrono::seconds timeout = kKernelTimeout);

// What gives each fault of the museum away: in the source tree, or under share/mlacheck. Throws
// like reference_library.
std::filesystem::path museum_recipes();

// The project's golden files: those of the source tree in a build tree, under share/mlacheck when
// installed. Throws like reference_library.
std::filesystem::path golden_folder();

}  // namespace mlacheck
