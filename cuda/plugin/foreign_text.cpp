#include "cuda/plugin/foreign_text.h"

#include <fmt/format.h>

namespace mlacheck {

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string line;
  for (const char c : text.substr(0, kMost))
    line += c < ' ' || c > '~' ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                               : std::string(1, c);
  return line + (text.size() > kMost ? "..." : "");
}

}  // namespace mlacheck
