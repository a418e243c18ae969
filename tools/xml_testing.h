#pragma once

#include <regex>
#include <string>
#include <vector>

namespace mlacheck::testing {

// What is wrong with a document of elements and attributes, as far as XML 1.0 has rules for it; ""
// when it is well-formed. Knows neither comments nor CDATA: nothing here writes them.
inline std::string flaw_of_xml(const std::string& text) {
  static const std::regex declaration(R"(^<\?xml version="1\.0" encoding="UTF-8"\?>\s*)");
  static const std::regex tag(
      R"(^<(/?)([A-Za-z][\w.-]*)((?:\s+[A-Za-z][\w.-]*="[^"<]*")*)\s*(/?)>)");
  static const std::regex entity(R"(^&(amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)");
  std::vector<std::string> open;
  std::smatch match;
  std::string rest = text;
  if (!std::regex_search(rest, match, declaration)) return "no declaration";
  rest = match.suffix();
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto c = static_cast<unsigned char>(rest[i]);
    if (c < 0x20 && c != '\n' && c != '\t' && c != '\r') return "a control character";
    if (c == '&' && !std::regex_search(rest.substr(i, 12), entity)) return "a bare ampersand";
  }
  std::size_t roots = 0;
  while (!rest.empty()) {
    if (rest[0] != '<') {
      if (open.empty() && rest[0] != '\n') return "text outside the root";
      rest.erase(0, 1);
      continue;
    }
    if (!std::regex_search(rest, match, tag)) return "no tag: " + rest.substr(0, 60);
    const bool closes = match[1].length() > 0, empty = match[4].length() > 0;
    const std::string name = match[2];
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else {
      roots += open.empty() ? 1 : 0;
      if (!empty) open.push_back(name);
    }
    rest = match.suffix();
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  return roots == 1 ? "" : "not one root";
}

// Whether text is UTF-8: no stray or missing continuation, nothing overlong, no surrogates.
inline bool is_utf8(const std::string& text) {
  static const std::regex sequences(
      "(?:[\\x00-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|\\xe0[\\xa0-\\xbf][\\x80-\\xbf]|"
      "[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}|\\xed[\\x80-\\x9f][\\x80-\\xbf]|"
      "\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}|[\\xf1-\\xf3][\\x80-\\xbf]{3}|"
      "\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2})*");
  return std::regex_match(text, sequences);
}

}  // namespace mlacheck::testing
