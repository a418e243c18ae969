#pragma once

#include <fmt/core.h>

#include <stdexcept>

namespace mlacheck::detail {

// Throws std::invalid_argument with the formatted message unless `holds`.
template <typename... Args>
void require(bool holds, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!holds) throw std::invalid_argument(fmt::format(message, args...));
}

}  // namespace mlacheck::detail
