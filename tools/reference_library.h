#pragma once

#include <filesystem>

namespace mlacheck {

// This program's own file: what a kernel worker runs.
std::filesystem::path this_program();

// The reference as a kernel library: beside the program in a build tree, under lib/mlacheck when
// installed. Throws std::runtime_error naming both places when it stands in neither.
std::filesystem::path reference_library();

// The project's golden files: those of the source tree in a build tree, under share/mlacheck when
// installed. Throws like reference_library.
std::filesystem::path golden_folder();

}  // namespace mlacheck
