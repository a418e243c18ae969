#pragma once

#include <cstdint>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/formats/dtype.h"
#include "reference/verdict/numerics_contract.h"

namespace mlacheck {

// What a kernel declares in C, as the verdicts read it. The kernel was checked on loading; what
// concerns other operators only was not, and has its default here.
NumericsContract contract_of(const mlacheck_kernel& kernel);

// The element type of an mlacheck_dtype.
DType dtype_of(std::int32_t dtype);

}  // namespace mlacheck
