#pragma once

#include <cstdint>
#include <string>

// What the plans of the kernels share.
namespace mlacheck::kernels {

inline constexpr std::int64_t kInt32Max = 0x7fffffff;

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

// A reason to refuse: the value and what is allowed.
inline std::string says(const char* name, std::int64_t value, const std::string& allowed) {
  return std::string(name) + " " + std::to_string(value) + ": " + allowed;
}

}  // namespace mlacheck::kernels
