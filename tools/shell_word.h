#pragma once

#include <string>

namespace mlacheck {

// A path or recipe as one word of a command that a person copies into a shell.
std::string shell_word(const std::string& text);

}  // namespace mlacheck
