#pragma once

#include <chrono>
#include <filesystem>

#include "cuda/plugin/kernel_library.h"

namespace mlacheck {

// Long enough for any library's constructors, short enough to wait for one that hangs.
inline constexpr std::chrono::seconds kLoadTimeout{30};

// The library as a worker process, "worker -- describe DESCRIPTOR LIBRARY", finds it: checked like
// an opened one, with kernels that have no functions. Nothing of the library runs here. Its
// targets are calls by the same program with that call_timeout. Throws KernelLibraryError when it
// is none, or when loading it crashes, ends the process or takes longer than load_timeout;
// std::runtime_error when no process can be had.
KernelLibrary describe_in_worker(const std::filesystem::path& library,
                                 const std::filesystem::path& worker_program,
                                 std::chrono::seconds call_timeout = kKernelTimeout,
                                 std::chrono::seconds load_timeout = kLoadTimeout);

// The other side, in the worker process: opens the library, writes down what it declares and ends
// the process. Returns only when there is nowhere to write to: the exit status 3.
int serve_description(int file_descriptor, const std::filesystem::path& library);

}  // namespace mlacheck
