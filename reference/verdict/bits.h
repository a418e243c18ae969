#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/formats/dtype.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Compares two contiguous arrays [shape...] bit by bit: -0 is not +0, one NaN is not another. FAIL
// tells how many elements differ, the first one's coordinates, both bit patterns and values, the
// elements around it, and the element that is furthest off. dtype: f32, f16, bf16, e4m3, i32 or u8.
Finding compare_bits(std::string stage, const void* expected, const void* got, DType dtype,
                     std::span<const std::int64_t> shape);

}  // namespace mlacheck
