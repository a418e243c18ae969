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

// What the conventions or the numerics contract of a kernel declare that the ABI does not allow, as
// "field is value, allowed are low to high"; empty when all is well.
std::string flaw_of_declaration(const mlacheck_kernel& kernel);

}  // namespace mlacheck
