#pragma once

#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace mlacheck::testing {

// Reads a document of elements and attributes, as far as XML 1.0 has rules for it. Knows neither
// comments nor CDATA: nothing here writes them.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : rest_(text) {}

  // What is wrong with the document; "" when it is well-formed.
  std::string flaw() {
    if (!take("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")) return "no declaration";
    std::size_t roots = 0;
    while (!rest_.empty()) {
      if (rest_[0] != '<') {
        if (open_.empty() && rest_[0] != '\n') return "text outside the root";
        if (!character()) return "a character that may not stand there";
        continue;
      }
      if (open_.empty()) ++roots;
      if (const std::string wrong = tag(); !wrong.empty()) return wrong;
    }
    if (!open_.empty()) return "<" + open_.back() + "> is not closed";
    return roots == 1 ? "" : "not one root";
  }

 private:
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::string name() {
    std::size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) != 0 ||
                                std::string_view("_-.:").find(rest_[n]) != std::string_view::npos))
      ++n;
    const std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return word;
  }
  // One character of text or of an attribute's value, an entity included.
  bool character() {
    for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"})
      if (take(entity)) return true;
    const auto c = static_cast<unsigned char>(rest_[0]);
    if (c == '&' || c == '<' || (c < 0x20 && c != '\n' && c != '\t' && c != '\r')) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string tag() {
    take("<");
    const bool closes = take("/");
    const std::string element = name();
    if (element.empty()) return "a tag without a name";
    if (closes) {
      if (open_.empty() || open_.back() != element) return "</" + element + "> closes nothing";
      open_.pop_back();
      return take(">") ? "" : "</" + element + " is not closed";
    }
    while (take(" ")) {
      const std::string attribute = name();
      if (attribute.empty() || !take("=\""))
        return "an attribute of <" + element + "> is no name=\"";
      while (!rest_.empty() && rest_[0] != '"')
        if (!character()) return attribute + " holds a character that may not stand there";
      if (!take("\"")) return attribute + " is not closed";
    }
    if (take("/>")) return "";
    open_.push_back(element);
    return take(">") ? "" : "<" + element + " is not closed";
  }

  std::string_view rest_;
  std::vector<std::string> open_;
};

inline std::string flaw_of_xml(std::string_view text) { return XmlReader(text).flaw(); }

// Whether text is UTF-8: no stray or missing continuation, nothing overlong, no surrogates.
inline bool is_utf8(std::string_view text) {
  // First byte, range of the second, bytes in all.
  struct Sequence {
    unsigned char first, last, low, high, bytes;
  };
  static constexpr std::array<Sequence, 8> kSequences = {{{0xc2, 0xdf, 0x80, 0xbf, 2},
                                                          {0xe0, 0xe0, 0xa0, 0xbf, 3},
                                                          {0xe1, 0xec, 0x80, 0xbf, 3},
                                                          {0xed, 0xed, 0x80, 0x9f, 3},
                                                          {0xee, 0xef, 0x80, 0xbf, 3},
                                                          {0xf0, 0xf0, 0x90, 0xbf, 4},
                                                          {0xf1, 0xf3, 0x80, 0xbf, 4},
                                                          {0xf4, 0xf4, 0x80, 0x8f, 4}}};
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t bytes = byte(i) < 0x80 ? 1 : 0;
    for (const Sequence& s : kSequences)
      if (byte(i) >= s.first && byte(i) <= s.last && byte(i + 1) >= s.low && byte(i + 1) <= s.high)
        bytes = s.bytes;
    if (bytes == 0) return false;
    for (std::size_t j = 2; j < bytes; ++j)
      if (byte(i + j) < 0x80 || byte(i + j) > 0xbf) return false;
    i += bytes;
  }
  return true;
}

}  // namespace mlacheck::testing
