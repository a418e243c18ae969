#pragma once

#include <cstddef>
#include <cstdint>

namespace mlacheck::detail {

// A count or an index, which is int64_t everywhere, as the standard containers want it; n >= 0.
constexpr std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace mlacheck::detail
