#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>

namespace mlacheck::detail {

// Throws std::invalid_argument with the formatted message unless `holds`.
template <typename... Args>
void require(bool holds, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!holds) throw std::invalid_argument(fmt::format(message, args...));
}

// Bytes that pages, or the rows of a page, may span: the sum of both is no overflow.
inline constexpr std::int64_t kMaxSpan = std::int64_t{1} << 62;

// Whether `count` things `stride` bytes apart span no more; count, stride >= 0.
constexpr bool spans(std::int64_t count, std::int64_t stride) {
  return count == 0 || stride <= kMaxSpan / count;
}

}  // namespace mlacheck::detail
