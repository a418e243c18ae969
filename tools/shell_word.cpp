#include "tools/shell_word.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace mlacheck {

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._/+-=,:@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace mlacheck
