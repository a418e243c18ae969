#pragma once

namespace mlacheck::device {

inline std::uint32_t own_register(std::uint32_t value) { return value; }

}  // namespace mlacheck::device
