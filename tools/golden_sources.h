#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/golden_file.h"
#include "fixtures/layer_golden.h"
#include "fixtures/recipe.h"

namespace mlacheck {

// Where captured goldens come from.

// Layers of a checkpoint, as open_checkpoint takes it.
struct CheckpointRequest {
  std::filesystem::path path;
  std::vector<std::int64_t> layers;
  // A safetensors file with hidden_states [S, hidden_size] (bf16, f16 or f32: what enters the
  // attention layer, after input_layernorm), and positions [S] (I32) unless they are 0 .. S - 1;
  // with `layer<l>.hidden_states` for layers that have their own. Or "hash:<tokens>:<seed>": the
  // states of the hash checkpoint.
  std::string inputs;
  std::string profile = "hf";
  std::string numerics = "bf16";
  std::int64_t topk = 0;  // 0: the model's
};
// Throws CheckpointError naming file and tensor, or std::invalid_argument naming the option.
Golden capture_checkpoint(const CheckpointRequest& request);
// What --topk asks for in place of the model's; 0 leaves it. Throws std::invalid_argument for more
// than the model has positions: each would take memory, and select nothing.
void replace_topk(std::int64_t topk, ModelSizes& sizes);

// The recorded layers of a capture of transformers, computed in `dtype` (fp64 or bf16), beside what
// the reference makes of them.
Golden capture_recording(const std::filesystem::path& capture, const std::string& dtype);

// A golden of a recipe: of an operator, or of a layer on the hash checkpoint.
Golden capture_recipe(const Recipe& recipe);

// The weights that a layer's golden was made with: the hash checkpoint's, or those of
// `checkpoint`, whose tensors must have the golden's hashes. Throws std::invalid_argument when the
// golden needs a checkpoint and there is none.
LayerWeights weights_of(const LayerGolden& layer, const std::filesystem::path& checkpoint);

}  // namespace mlacheck
