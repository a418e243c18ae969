#pragma once

#include <limits>

namespace mlacheck {

inline constexpr double kU = 0x1p-24;  // fp32's unit roundoff
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kFloatMax = static_cast<double>(std::numeric_limits<float>::max());

}  // namespace mlacheck
