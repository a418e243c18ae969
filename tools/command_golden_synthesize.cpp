#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "fixtures/model/synthetic_model.h"
#include "reference/verdict/verdict.h"
#include "tools/commands.h"

namespace mlacheck {

void add_golden_synthesize(CLI::App& golden, Action& action) {
  struct Options {
    std::string model;
    std::uint64_t seed = 1;
    std::string format = "bf16";
    std::filesystem::path out;
  };
  auto options = std::make_shared<Options>();
  static const std::map<std::string, SyntheticFormat> formats = {
      {"bf16", SyntheticFormat::bf16},
      {"fp8", SyntheticFormat::fp8},
      {"gguf", SyntheticFormat::gguf},
      {"gguf-bf16", SyntheticFormat::gguf_bf16}};
  CLI::App* command = golden.add_subcommand(
      "synthesize", "Write a small whole model as files, for `golden capture --model` and others");
  command
      ->add_option(
          "model", options->model,
          "glm5, glm52 or dsv32, with attention of the real size (some 1.5 GB in bf16), or "
          "each with :tiny")
      ->required();
  command->add_option("--seed", options->seed, "Of its weights")->capture_default_str();
  command
      ->add_option(
          "--format", options->format,
          "bf16 or fp8: safetensors; gguf: Q8_0 and F32, experts and dense MLPs in K-quants; "
          "gguf-bf16; GGUF of glm5 and glm52 alone")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  command->add_option("--out", options->out, "The folder to write into")->required();
  command->callback([options, &action] {
    action = [options] {
      const SyntheticModel model = synthetic_model(options->model, options->seed);
      const std::filesystem::path path =
          write_synthetic(model, formats.at(options->format), options->out);
      fmt::print("{}: {} layers\n", path.string(), model.sizes.num_hidden_layers);
      return kExitPass;
    };
  });
}

}  // namespace mlacheck
