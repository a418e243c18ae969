#include "tools/golden_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <variant>

#include "fixtures/capture_compare_model.h"
#include "fixtures/case.h"
#include "fixtures/checkpoint/checkpoint.h"
#include "fixtures/checkpoint/checkpoint_error.h"
#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/checkpoint/model_config.h"
#include "fixtures/checkpoint/safetensors.h"
#include "fixtures/checkpoint/weight_values.h"
#include "fixtures/operator_golden.h"
#include "fixtures/sha256.h"
#include "fixtures/weight_digest.h"

namespace mlacheck {

namespace {

// "hash:<tokens>:<seed>"
std::optional<Matrix> hash_inputs(const std::string& inputs, const ModelSizes& sizes) {
  if (!inputs.starts_with("hash:")) return std::nullopt;
  std::int64_t tokens = 0;
  std::uint64_t seed = 0;
  const char* end = inputs.data() + inputs.size();
  const auto first = std::from_chars(inputs.data() + 5, end, tokens);
  const bool colon = first.ec == std::errc() && first.ptr != end && *first.ptr == ':';
  const auto second = colon ? std::from_chars(first.ptr + 1, end, seed)
                            : std::from_chars_result{end, std::errc::invalid_argument};
  if (second.ec != std::errc() || second.ptr != end || tokens < 1 || tokens > 1 << 20)
    throw std::invalid_argument(fmt::format(
        "--inputs {}: expected a file or hash:<tokens>:<seed> with 1 to 1048576 tokens", inputs));
  return hash_hidden_states(tokens, sizes.hidden_size, seed);
}

// [rows, cols] of a safetensors file as fp32; cols is fixed.
Matrix read_matrix(const SafetensorsFile& file, const std::string& name, std::int64_t cols) {
  const SafetensorsEntry& entry = file.tensors().at(name);
  const std::optional<DType> dtype = dtype_of_safetensors(entry.dtype);
  const bool real = dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
  if (!real || entry.shape.size() != 2 || entry.shape[1] != cols)
    throw CheckpointError(
        file.path(),
        fmt::format("{}: expected BF16, F16 or F32 of shape [tokens, {}], got {} of [{}]", name,
                    cols, entry.dtype, fmt::join(entry.shape, ", ")));
  if (entry.shape[0] < 1)
    throw CheckpointError(file.path(), fmt::format("{}: expected a token or more", name));
  Matrix m(entry.shape[0], cols);
  load_row(entry.bytes.data(), *dtype, std::ssize(m.data), m.data.data());
  require_finite({DType::f32, m.rows, m.cols, m.data.data(), {}}, [&](const std::string& reason) {
    throw CheckpointError(file.path(), fmt::format("{}: {}", name, reason));
  });
  return m;
}

std::vector<std::int64_t> read_positions(const SafetensorsFile& file, std::int64_t tokens) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  const auto found = file.tensors().find("positions");
  if (found == file.tensors().end()) return positions;
  const SafetensorsEntry& entry = found->second;
  if (entry.dtype != "I32" || entry.shape != std::vector<std::int64_t>{tokens})
    throw CheckpointError(
        file.path(), fmt::format("positions: expected I32 of shape [{}], got {} of [{}]", tokens,
                                 entry.dtype, fmt::join(entry.shape, ", ")));
  std::vector<std::int32_t> values(positions.size());
  std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());  // aligned to nothing
  std::int64_t least = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] == std::numeric_limits<std::int32_t>::max())
      throw CheckpointError(
          file.path(),
          fmt::format("positions[{}]: expected {} to 2147483646, got {}", i, least, values[i]));
    positions[i] = values[i];
    least = positions[i] + 1;
  }
  return positions;
}

// A name that is not known could be a mistaken "positions", which would go unread.
void require_known_tensors(const SafetensorsFile& file) {
  for (const auto& [name, entry] : file.tensors()) {
    const std::string_view tail = ".hidden_states";
    const bool states = name.starts_with("layer") && name.ends_with(tail) &&
                        name.size() > 5 + tail.size() &&
                        name.find_first_not_of("0123456789", 5) == name.size() - tail.size();
    if (!states && name != "hidden_states" && name != "positions")
      throw CheckpointError(
          file.path(),
          fmt::format("{}: expected hidden_states, layer<N>.hidden_states or positions", name));
  }
}

LayerInput read_states(const std::string& inputs, const ModelSizes& sizes, std::int64_t layer) {
  LayerInput input;
  if (std::optional<Matrix> hashed = hash_inputs(inputs, sizes)) {
    input.hidden = std::move(*hashed);
    input.positions.resize(static_cast<std::size_t>(input.hidden.rows));
    std::iota(input.positions.begin(), input.positions.end(), 0);
    return input;
  }
  const SafetensorsFile file{inputs};
  require_known_tensors(file);
  const std::string own = fmt::format("layer{}.hidden_states", layer);
  const std::string name = file.tensors().contains(own) ? own : "hidden_states";
  if (!file.tensors().contains(name))
    throw CheckpointError(inputs, fmt::format("has neither {} nor hidden_states", own));
  input.hidden = read_matrix(file, name, sizes.hidden_size);
  input.positions = read_positions(file, input.hidden.rows);
  return input;
}

// What enters `layer`. bf16 numerics read bf16 states.
LayerInput read_input(const std::string& inputs, const ModelSizes& sizes,
                      const LayerNumerics& numerics, std::int64_t layer) {
  LayerInput input = read_states(inputs, sizes, layer);
  for (float& x : input.hidden.data) x = round_to(numerics.activations, x);
  return input;
}

// The known model whose layers have these sizes; which layers there are does not matter to one of
// them.
std::string name_of(const ModelSizes& sizes) {
  for (const std::string& name : model_names()) {
    ModelSizes known = model_sizes(name);
    known.name = sizes.name;
    known.model_type = sizes.model_type;
    known.index_topk = sizes.index_topk;
    known.num_hidden_layers = sizes.num_hidden_layers;
    known.max_position_embeddings = sizes.max_position_embeddings;
    known.indexer_types = sizes.indexer_types;
    known.index_topk_pattern = sizes.index_topk_pattern;
    known.index_topk_freq = sizes.index_topk_freq;
    known.index_skip_topk_offset = sizes.index_skip_topk_offset;
    if (known == sizes) return name;
  }
  throw std::invalid_argument(
      fmt::format("the capture's sizes are those of none of the known models ({})",
                  fmt::join(model_names(), ", ")));
}

// The layer's own words are of what the files say: the options were looked at before.
LayerStages run_layer(const std::filesystem::path& config, const LayerGolden& layer,
                      const LayerWeights& weights, const LayerInput& input) {
  try {
    return attention_layer(layer.sizes, layer.numerics, weights, input);
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(config, fmt::format("layer {}: {}", layer.layer, error.what()));
  }
}

}  // namespace

void replace_topk(std::int64_t topk, ModelSizes& sizes) {
  if (topk < 0 || topk > sizes.max_position_embeddings)
    throw std::invalid_argument(
        fmt::format("--topk {}: expected 1 to {}, the model's max_position_embeddings (there are "
                    "no more keys to select), or 0 for the model's index_topk",
                    topk, sizes.max_position_embeddings));
  if (topk != 0) sizes.index_topk = topk;
}

Golden capture_checkpoint(const CheckpointRequest& request) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(request.path);
  const std::filesystem::path config = checkpoint->config_path();
  const std::string config_json = checkpoint->config_json();
  ModelSizes sizes = parse_model_config(config, config_json);
  replace_topk(request.topk, sizes);
  const DType activations = request.numerics == "bf16" ? DType::bf16 : DType::f32;

  std::vector<Golden> layers;
  for (const std::int64_t number : request.layers) {
    if (number < 0 || number >= sizes.num_hidden_layers)
      throw std::invalid_argument(fmt::format("--layers {}: the model has layers 0 to {}", number,
                                              sizes.num_hidden_layers - 1));
    LayerGolden layer;
    layer.model = "config";
    layer.config_json = config_json;
    layer.sizes = sizes;
    layer.layer = number;
    layer.numerics = layer_numerics(request.profile, activations, sizes);
    layer.source =
        fmt::format("checkpoint {}, inputs {}, profile {}",
                    std::filesystem::weakly_canonical(request.path).filename().string(),
                    std::filesystem::path(request.inputs).filename().string(), request.profile);
    layer.input = read_input(request.inputs, sizes, layer.numerics, number);
    const LayerWeights weights = checkpoint->load_layer(sizes, number);
    layer.weights_sha256 = weight_digests(sizes, number, weights);
    if (const std::int64_t full = full_index_layer_of(sizes, number); full != number) {
      const LayerInput earlier = read_input(request.inputs, sizes, layer.numerics, full);
      LayerStages stages = run_layer(config, layer, checkpoint->load_layer(sizes, full), earlier);
      layer.shared_indices = std::move(stages.topk_indices);
      layer.input.shared_indices = index_rows(layer.shared_indices, stages.q.rows);
    }
    const LayerStages stages = run_layer(config, layer, weights, layer.input);
    layers.push_back(make_layer_golden(layer, stages));
  }
  Golden golden = join_layers(layers);
  // Finite weights and states can still overflow; parameters of rope can make anything.
  if (const std::optional<GoldenProblem> problem = find_problem(golden))
    throw CheckpointError(config, fmt::format("gives, with --inputs {}, {}: {}", request.inputs,
                                              problem->object, problem->reason));
  return golden;
}

Golden capture_recording(const std::filesystem::path& capture, const std::string& dtype) {
  const CapturedModel model(capture);
  std::vector<Golden> layers;
  for (const CapturedModel::Group& group : model.groups()) {
    if ((group.dtype == DType::bf16) != (dtype == "bf16")) continue;
    LayerGolden layer;
    layer.captured = model.read(group);
    const CapturedLayer& captured = *layer.captured;
    layer.model = name_of(model.sizes());
    layer.sizes = model.sizes();
    layer.layer = group.layer;
    layer.numerics = captured_numerics(layer.sizes, captured);
    layer.weights_seed = model.seed();
    layer.channel_scale = model.channel_scale();
    layer.source = fmt::format(
        "weights: hash checkpoint, seed {}; inputs and outputs/transformers_{}: {} of {}, sha256 "
        "{}",
        model.seed(), dtype, captured.name, capture.filename().string(), sha256_file_hex(capture));
    layer.input = captured.input;
    layer.attention_indices = captured.topk_indices;
    layer.input.forced_indices = index_rows(layer.attention_indices, captured.output.rows);
    if (captured.shared_indices) {
      layer.shared_indices = *captured.shared_indices;
      layer.input.shared_indices = index_rows(layer.shared_indices, captured.output.rows);
    }
    const LayerStages stages =
        attention_layer(layer.sizes, layer.numerics,
                        hash_layer_weights(layer.sizes, layer.layer, model.seed()), layer.input);
    layers.push_back(make_layer_golden(layer, stages));
  }
  if (layers.empty())
    throw std::invalid_argument(
        fmt::format("{}: has no layer recorded in {}", capture.string(), dtype));
  return join_layers(layers);
}

Golden capture_recipe(const Recipe& recipe) {
  const auto* layer_recipe = std::get_if<LayerRecipe>(&recipe);
  if (layer_recipe == nullptr) return make_operator_golden(recipe);
  LayerCase c(*layer_recipe);
  LayerGolden layer;
  layer.model = layer_recipe->model;
  layer.sizes = c.sizes;
  layer.layer = layer_recipe->layer;
  layer.numerics = c.numerics;
  layer.weights_seed = layer_recipe->seed;
  layer.source = canonical(recipe);
  layer.input = c.input;
  layer.shared_indices = c.full_layer_indices;
  if (layer.input.shared_indices)
    layer.input.shared_indices = index_rows(layer.shared_indices, layer.input.hidden.rows);
  return make_layer_golden(layer, attention_layer(c.sizes, c.numerics, c.weights, layer.input));
}

LayerWeights weights_of(const LayerGolden& layer, const std::filesystem::path& checkpoint) {
  if (layer.weights_seed) return hash_layer_weights(layer.sizes, layer.layer, *layer.weights_seed);
  if (checkpoint.empty())
    throw std::invalid_argument("was made from a checkpoint: give it with --checkpoint");
  LayerWeights weights = open_checkpoint(checkpoint)->load_layer(layer.sizes, layer.layer);
  const std::map<std::string, std::string> digests(layer.weights_sha256.begin(),
                                                   layer.weights_sha256.end());
  for (const ExpectedTensor& tensor :
       expected_tensors(layer.sizes, is_full_index_layer(layer.sizes, layer.layer))) {
    const auto digest = digests.find(tensor.name);
    if (digest == digests.end())
      throw std::invalid_argument(fmt::format("has no attribute weights_sha256.{}", tensor.name));
    if (digest->second != sha256_of(weights.*tensor.member))
      throw CheckpointError(checkpoint,
                            fmt::format("{}: is not the tensor that the golden was made from",
                                        tensor_name(layer.layer, tensor.name)));
  }
  return weights;
}

}  // namespace mlacheck
