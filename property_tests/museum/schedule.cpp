#include "property_tests/museum/schedule.h"

#include <chrono>

namespace mlacheck::museum {

std::uint64_t schedule() {
  static std::uint64_t calls = 0;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  // splitmix64 of a number that never comes again
  std::uint64_t x = static_cast<std::uint64_t>(now) + 0x9e3779b97f4a7c15u * ++calls;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace mlacheck::museum
