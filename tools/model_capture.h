#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/golden_file.h"
#include "fixtures/model/saved_forward.h"

namespace mlacheck {

// Layers of a whole model that runs on tokens.
struct ModelRequest {
  std::filesystem::path path;  // as open_model takes it; or
  std::string synthetic;       // a name of synthetic_model
  std::uint64_t seed = 1;      // of that
  // "1,2,3", or a file of ids between white space or as a JSON list; empty: synthetic_tokens.
  std::string tokens;
  std::vector<std::int64_t> layers;
  std::string profile = "hf";
  std::string numerics = "bf16";
};

// Runs it, telling stderr how far it is. What is finished is kept in `saved`, the folder
// <out>.capture, which the caller removes when the golden is written. Throws CheckpointError naming
// file and tensor, or std::invalid_argument naming the option.
Golden capture_from_model(const ModelRequest& request, const std::filesystem::path& out,
                          std::optional<SavedForward>& saved);

}  // namespace mlacheck
