#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/activations/engine_layer.h"
#include "fixtures/layer_golden.h"

namespace mlacheck {

// A layer as an inference engine ran it, to be recomputed from the hidden states that it recorded.
struct ImportRequest {
  std::vector<std::filesystem::path> files;  // read_engine_layer
  std::filesystem::path checkpoint;          // or
  std::string synthetic;                     // a name of synthetic_model
  std::uint64_t seed = 1;
  std::int64_t layer = 0;
  std::string profile = "hf";
  std::string numerics = "bf16";
  std::int64_t topk = 0;  // 0: the model's
  EngineOptions engine;
};

struct Import {
  LayerGolden layer;  // its golden would have the engine's stages beside ours
  LayerStages stages;
};

// Reads the files and runs the layer, bit-explicitly, with attention on the engine's topk_indices.
// weights_proj is bf16 where all that the engine recorded of it is. Throws CheckpointError or
// Hdf5Error naming file and array, std::invalid_argument naming the option.
Import import_layer(const ImportRequest& request);

}  // namespace mlacheck
