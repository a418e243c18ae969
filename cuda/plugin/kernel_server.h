#pragma once

#include <filesystem>

namespace mlacheck {

// The worker's side of PROTOCOL.md: loads the library when it is asked to describe it and makes
// calls until the socket is closed; then it ends the process.
[[noreturn]] void serve_kernels(int socket, const std::filesystem::path& library);

}  // namespace mlacheck
