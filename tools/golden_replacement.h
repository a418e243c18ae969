#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fixtures/golden_file.h"

namespace mlacheck {

// For humans.
std::string text_of(const Attribute& attribute);

// A golden is written in place of an older one of the same thing alone. Throws Hdf5Error naming the
// file where there is one that lacks any of these attributes, or has another value of it; hashes of
// what the reference gave are left out, as they change with its bits. What cannot be read as a
// golden is not replaced either. Returns the older one.
std::optional<Golden> require_same_golden(const std::filesystem::path& path,
                                          const AttributeMap& attributes);

}  // namespace mlacheck
