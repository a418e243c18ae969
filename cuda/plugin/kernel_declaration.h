#pragma once

#include <string>

#include "cuda/include/mlacheck_kernel.h"

namespace mlacheck {

// What the conventions or the numerics contract of a kernel declare that the ABI does not allow, as
// "field is value, allowed are low to high"; empty when all is well.
std::string flaw_of_declaration(const mlacheck_kernel& kernel);

}  // namespace mlacheck
