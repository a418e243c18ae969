#pragma once

#include <string>
#include <string_view>

namespace mlacheck {

// What a kernel library or its process has written, as a message may show it: in one line, of at
// most 80 of its bytes, with those that are no printable ASCII in hexadecimal: "two\x0alines".
std::string shown(std::string_view text);

}  // namespace mlacheck
