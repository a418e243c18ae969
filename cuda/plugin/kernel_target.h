#pragma once

#include <memory>
#include <string>

namespace mlacheck {

class KernelProcessPool;

// Which kernel to call, and where.
struct KernelTarget {
  std::shared_ptr<KernelProcessPool> processes;  // one for all kernels of a library
  std::string kernel;                            // of a chain: one a line
};

}  // namespace mlacheck
