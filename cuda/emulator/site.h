#pragma once

#include <cstdint>
#if !defined(__clang__)
#include <source_location>
#endif

namespace mlacheck::emulator {

// A place in a kernel's text. Two calls on one line differ in their column.
struct Site {
  const char* file = "";
  std::uint32_t line = 0;
  std::uint32_t column = 0;

  // Of the caller, as a default argument.
#if defined(__clang__)  // clang 14 has no std::source_location with libstdc++ 12
  static constexpr Site here(const char* file = __builtin_FILE(),
                             std::uint32_t line = __builtin_LINE(),
                             std::uint32_t column = __builtin_COLUMN()) {
    return {file, line, column};
  }
#else
  static constexpr Site here(std::source_location place = std::source_location::current()) {
    return {place.file_name(), place.line(), place.column()};
  }
#endif

  // Enough to tell two places of one kernel apart.
  constexpr std::uint32_t id() const { return line << 10 | (column & 1023u); }
  friend constexpr bool operator==(const Site& a, const Site& b) { return a.id() == b.id(); }
};

}  // namespace mlacheck::emulator
