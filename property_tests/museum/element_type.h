#pragma once

#include <cstdint>

#include "cuda/include/mlacheck_kernel.h"
#include "reference/formats/dtype.h"

namespace mlacheck::museum {

// The element type of an mlacheck_dtype that a kernel supports.
constexpr DType element_type(std::int32_t dtype) {
  if (dtype == MLACHECK_F16) return DType::f16;
  if (dtype == MLACHECK_BF16) return DType::bf16;
  return dtype == MLACHECK_E4M3 ? DType::e4m3 : DType::f32;
}

}  // namespace mlacheck::museum
