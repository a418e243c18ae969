#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck {

// Bytes of a mlacheck_kernel before fields were appended to it: the least that a library may have.
inline constexpr std::size_t kFirstKernelSize = offsetof(mlacheck_kernel, relu_drops_nan);

// The appended field; 0 where the kernel's struct_size ends before it.
std::int32_t relu_drops_nan(const mlacheck_kernel& kernel);

// Everything that a kernel declares of its own operator and the ABI does not allow, each as
// "field is value, allowed are low to high", joined by "; "; empty when all is well. What concerns
// other operators only is not read.
std::string flaws_of_declaration(const mlacheck_kernel& kernel);

}  // namespace mlacheck
