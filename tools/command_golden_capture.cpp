#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/golden_file.h"
#include "fixtures/recipe.h"
#include "tools/commands.h"
#include "tools/golden_replacement.h"
#include "tools/golden_sources.h"
#include "tools/model_capture.h"

namespace mlacheck {
namespace {

struct CaptureOptions {
  CheckpointRequest checkpoint;
  ModelRequest model;
  std::vector<std::string> layers;
  std::string recipe;
  std::string recording;
  std::string dtype = "fp64";
  std::filesystem::path out;
};

int capture(const CaptureOptions& options) {
  require_golden_path(options.out);
  Golden golden;
  std::optional<SavedForward> saved;
  if (!options.recipe.empty())
    golden = capture_recipe(parse_recipe(options.recipe));
  else if (!options.recording.empty())
    golden = capture_recording(options.recording, options.dtype);
  else if (!options.model.path.empty() || !options.model.synthetic.empty())
    golden = capture_from_model(options.model, options.out, saved);
  else
    golden = capture_checkpoint(options.checkpoint);
  require_same_golden(options.out, golden.attributes);
  write_golden(options.out, golden);
  if (saved) saved->remove();
  fmt::print("{}: {} datasets, content {}\n", options.out.string(), golden.datasets.size(),
             golden_digest(golden).substr(0, 16));
  return kExitPass;
}

// Of lists separated by commas. An empty word is no number, and none is left out.
std::vector<std::int64_t> parse_layers(const std::vector<std::string>& lists) {
  std::vector<std::int64_t> layers;
  for (const std::string& list : lists)
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      std::int64_t layer = 0;
      const auto [rest, error] = std::from_chars(list.data() + begin, list.data() + end, layer);
      if (error != std::errc() || rest != list.data() + end)
        throw CLI::ValidationError(
            "--layers", fmt::format("expected numbers separated by commas, got '{}'", list));
      layers.push_back(layer);
      begin = end + 1;
    }
  return layers;
}

}  // namespace

void add_golden_capture(CLI::App& golden, Action& action) {
  auto options = std::make_shared<CaptureOptions>();
  CheckpointRequest& checkpoint = options->checkpoint;
  CLI::App* command = golden.add_subcommand(
      "capture",
      "Run the reference on a recipe, a checkpoint's layers or a recording, and keep the result");
  auto* from = command->add_option_group("source");
  from->add_option("--recipe", options->recipe, "A recipe, quoted");
  auto* of_checkpoint = from->add_option(
      "--checkpoint", checkpoint.path,
      "Folder with config.json and safetensors (bf16, f16, f32 or fp8) or with one "
      "GGUF model; or one of its files");
  auto* of_model = from->add_option("--model", options->model.path,
                                    "A whole model, run on --tokens layer by layer: as "
                                    "--checkpoint. Killed, the same command goes "
                                    "on from what it keeps in <out>.capture");
  auto* of_synthetic = from->add_option(
      "--synthetic", options->model.synthetic,
      "The made-up model that golden synthesize writes, made as it runs: glm5, glm52 or dsv32, or "
      "each with :tiny");
  auto* of_recording = from->add_option(
      "--recording", options->recording,
      "A capture of tools/capture_transformers.py, kept beside the reference's answer");
  from->require_option(1);
  // What a source cannot use is an error, not ignored.
  const std::vector<CLI::Option*> of_layers = {
      command->add_option("--layers", options->layers, "Layers of the checkpoint, e.g. 0,1"),
      command->add_option("--profile", checkpoint.profile, "hf, vllm or deepseek")
          ->capture_default_str(),
      command->add_option("--numerics", checkpoint.numerics, "fp32 or bf16")
          ->check(CLI::IsMember({"fp32", "bf16"}))
          ->capture_default_str()};
  const CLI::Option* tokens =
      command->add_option("--tokens", options->model.tokens,
                          "Token ids as in 1,2,3, or a file of them: between white space, or a "
                          "JSON list; without, a synthetic model gets 16");
  command->add_option("--seed", options->model.seed, "Of the synthetic model")
      ->needs(of_synthetic)
      ->capture_default_str();
  command
      ->add_option("--inputs", checkpoint.inputs,
                   "safetensors file with hidden_states [S, hidden] (after input_layernorm), or "
                   "hash:<tokens>:<seed>")
      ->needs(of_checkpoint);
  command->add_option("--topk", checkpoint.topk, "index_topk in place of the model's")
      ->needs(of_checkpoint);
  command->add_option("--dtype", options->dtype, "Which layers of the recording")
      ->needs(of_recording)
      ->check(CLI::IsMember({"fp64", "bf16"}))
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "The golden file to write, or to write anew: another one is not replaced")
      ->required();
  command->callback([=, &action] {
    for (const CLI::Option* option : of_layers)
      if (option->count() != 0 &&
          of_checkpoint->count() + of_model->count() + of_synthetic->count() == 0)
        throw CLI::RequiresError(option->get_name(), "--checkpoint, --model or --synthetic");
    if (tokens->count() != 0 && of_model->count() + of_synthetic->count() == 0)
      throw CLI::RequiresError("--tokens", "--model or --synthetic");
    CheckpointRequest& request = options->checkpoint;
    request.layers = parse_layers(options->layers);
    options->model.layers = request.layers;
    if (of_synthetic->count() != 0 && request.layers.empty()) options->model.layers = {0, 1, 2};
    options->model.profile = request.profile;
    options->model.numerics = request.numerics;
    if (of_model->count() != 0 && (request.layers.empty() || options->model.tokens.empty()))
      throw CLI::ValidationError("--model", "needs --layers and --tokens");
    if (!request.path.empty() && (request.layers.empty() || request.inputs.empty()))
      throw CLI::ValidationError("--checkpoint", "needs --layers and --inputs");
    action = [options] { return capture(*options); };
  });
}

}  // namespace mlacheck
