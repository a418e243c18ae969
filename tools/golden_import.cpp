#include "tools/golden_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "fixtures/checkpoint/checkpoint.h"
#include "fixtures/checkpoint/checkpoint_error.h"
#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/checkpoint/model_config.h"
#include "fixtures/model/synthetic_model.h"
#include "fixtures/weight_digest.h"
#include "tools/golden_sources.h"

namespace mlacheck {
namespace {

// The precision of weights_proj differs by how an engine loaded the model.
void take_index_weights(const EngineLayer& engine, LayerNumerics& numerics) {
  const auto raw = engine.stages.find("index_weights_raw");
  if (raw == engine.stages.end()) return;
  const std::vector<float>& values = raw->second.data;
  if (std::all_of(values.begin(), values.end(),
                  [](float x) { return round_to(DType::bf16, x) == x; }))
    numerics.index_weights = numerics.activations;
}

// What all of no more than `topk` tokens select: [T, topk] ascending, then -1.
std::vector<std::int32_t> every_key(const LayerInput& input, std::int64_t topk) {
  std::vector<std::int32_t> indices;
  for (std::int64_t own = input.first_query_row; own < input.hidden.rows; ++own)
    for (std::int64_t j = 0; j < topk; ++j)
      indices.push_back(j <= own ? static_cast<std::int32_t>(j) : -1);
  return indices;
}

std::string names_of(const std::vector<std::filesystem::path>& files) {
  std::string names;
  for (const std::filesystem::path& file : files)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", file.filename().string());
  return names;
}

}  // namespace

Import import_layer(const ImportRequest& request) {
  Import result;
  LayerGolden& layer = result.layer;
  std::unique_ptr<Checkpoint> checkpoint;
  std::string weights_from;
  if (request.checkpoint.empty()) {
    const SyntheticModel model = synthetic_model(request.synthetic, request.seed);
    layer.model = "config";
    layer.config_json = model.config_json;
    layer.sizes = model.sizes;
    layer.weights_seed = request.seed;
    weights_from = fmt::format("synthetic {}, seed {}", request.synthetic, request.seed);
  } else {
    checkpoint = open_checkpoint(request.checkpoint);
    layer.model = "config";
    layer.config_json = checkpoint->config_json();
    layer.sizes = parse_model_config(checkpoint->config_path(), layer.config_json);
    weights_from = std::filesystem::weakly_canonical(request.checkpoint).filename().string();
  }
  ModelSizes& sizes = layer.sizes;
  replace_topk(request.topk, sizes);
  if (request.layer < 0 || request.layer >= sizes.num_hidden_layers)
    throw std::invalid_argument(fmt::format("--layer {}: the model has layers 0 to {}",
                                            request.layer, sizes.num_hidden_layers - 1));
  layer.layer = request.layer;
  layer.numerics =
      layer_numerics(request.profile, request.numerics == "bf16" ? DType::bf16 : DType::f32, sizes);

  std::vector<ArrayFile> files;
  for (const std::filesystem::path& file : request.files) files.push_back(open_arrays(file));
  EngineImport import =
      read_engine_layer(files, sizes, layer.numerics, request.layer, request.engine);
  take_index_weights(import.engine, layer.numerics);
  layer.input = std::move(import.input);
  layer.engine = std::move(import.engine);
  layer.source = fmt::format("weights: {}; inputs and outputs/engine: {}; profile {}", weights_from,
                             names_of(request.files), request.profile);

  const LayerWeights weights = checkpoint ? checkpoint->load_layer(sizes, request.layer)
                                          : hash_layer_weights(sizes, request.layer, request.seed);
  if (checkpoint) layer.weights_sha256 = weight_digests(sizes, request.layer, weights);
  const std::int64_t queries = layer.input.hidden.rows - layer.input.first_query_row;
  if (!layer.engine->topk_indices.empty()) {
    layer.attention_indices = layer.engine->topk_indices;
    layer.input.forced_indices = index_rows(layer.attention_indices, queries);
  }
  if (!is_full_index_layer(sizes, request.layer)) {
    layer.shared_indices = layer.engine->topk_indices;
    if (layer.shared_indices.empty())
      layer.shared_indices = every_key(layer.input, sizes.index_topk);
    layer.input.shared_indices = index_rows(layer.shared_indices, queries);
  }
  result.stages = attention_layer(sizes, layer.numerics, weights, layer.input);
  return result;
}

}  // namespace mlacheck
