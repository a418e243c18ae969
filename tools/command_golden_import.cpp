#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "fixtures/activations/engine_compare.h"
#include "tools/commands.h"
#include "tools/golden_import.h"
#include "tools/golden_replacement.h"
#include "tools/report_options.h"
#include "tools/shell_word.h"

namespace mlacheck {
namespace {

struct ImportOptions {
  ImportRequest request;
  std::string rope_order;
  std::filesystem::path out;
  ReportOptions report;
};

std::string repro_of(const ImportOptions& options) {
  const ImportRequest& request = options.request;
  std::string line = "mlacheck golden import";
  for (const std::filesystem::path& file : request.files) line += " " + shell_word(file.string());
  line += request.checkpoint.empty()
              ? fmt::format(" --synthetic {} --seed {}", request.synthetic, request.seed)
              : " --checkpoint " + shell_word(request.checkpoint.string());
  line += fmt::format(" --layer {} --profile {} --numerics {}", request.layer, request.profile,
                      request.numerics);
  if (request.topk != 0) line += fmt::format(" --topk {}", request.topk);
  if (!options.rope_order.empty()) line += " --rope-order " + options.rope_order;
  return line + " --out " + shell_word(options.out.string());
}

int import_and_judge(const ImportOptions& options) {
  require_golden_path(options.out);
  Report report("golden import", options.report);
  const Import import = import_layer(options.request);
  const LayerGolden& layer = import.layer;
  const Golden golden = make_layer_golden(layer, import.stages);
  require_same_golden(options.out, golden.attributes);
  const std::string name =
      fmt::format("{} layer {}", options.request.files.front().filename().string(), layer.layer);
  bool right = true;
  for (const StageComparison& stage :
       compare_engine(layer.sizes, layer.numerics, layer.input, *layer.engine, import.stages)) {
    right = right && stage.status == Status::pass;
    report.add({.name = fmt::format("{} {}", name, stage.stage),
                .status = stage.status,
                .detail = stage.detail,
                .repro = repro_of(options)});
  }
  if (right) {
    write_golden(options.out, golden);
    report.note(fmt::format("{}: {} datasets, content {}", options.out.string(),
                            golden.datasets.size(), golden_digest(golden).substr(0, 16)));
  } else {
    report.note(fmt::format("{}: not written, as a stage fails", options.out.string()));
  }
  return report.finish();
}

}  // namespace

void add_golden_import(CLI::App& golden, Action& action) {
  auto options = std::make_shared<ImportOptions>();
  options->report.details = true;
  ImportRequest& request = options->request;
  CLI::App* command = golden.add_subcommand(
      "import",
      "Judge what an inference engine recorded of a layer, recomputed from the same hidden states, "
      "and keep both");
  command
      ->add_option("file", request.files,
                   "safetensors, HDF5, .npz (not compressed) or .npy files of one recording")
      ->required();
  auto* weights = command->add_option_group("weights");
  weights->add_option("--checkpoint", request.checkpoint,
                      "As of golden capture: safetensors or GGUF");
  auto* synthetic = weights->add_option("--synthetic", request.synthetic,
                                        "The made-up model that golden synthesize writes: glm5, "
                                        "glm52 or dsv32, or each with :tiny");
  weights->require_option(1);
  command->add_option("--seed", request.seed, "Of the synthetic model")
      ->needs(synthetic)
      ->capture_default_str();
  command->add_option("--layer", request.layer, "The recorded layer")->required();
  command->add_option("--profile", request.profile, "hf, vllm or deepseek")->capture_default_str();
  command->add_option("--numerics", request.numerics, "fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command->add_option("--topk", request.topk, "index_topk in place of the model's");
  command
      ->add_option("--rope-order", options->rope_order,
                   "How the engine leaves rotated elements, where the file does not say: "
                   "interleaved (vLLM, SGLang, llama.cpp) or deinterleaved (transformers)")
      ->check(CLI::IsMember({"interleaved", "deinterleaved"}));
  command
      ->add_option("--out", options->out,
                   "The golden file to write, or to write anew: another one is not replaced")
      ->required();
  add_report_options(*command, options->report);
  command->footer(
      std::string(
          "Arrays, each also as layer<N>.<name>: hidden_states [S, hidden] (what enters the "
          "attention\n"
          "layer, after input_layernorm; needed), positions [S], topk_indices [T, k], and what the "
          "engine\n"
          "computed of the stages below; kv_cache may be u8 [S, 656]. f32, f16, bf16; NumPy and "
          "h5py have\n"
          "no bf16: name its 16-bit patterns <name>_bf16. Each stage is a check; the golden, which "
          "`golden\n"
          "check` judges again, is written if all pass.\n\n"
          "What an engine rounds is not declared, so that its stages have flat limits, not derived "
          "ones, of the\n"
          "relative Frobenius error. Beside recorded index_scores, topk_indices are to be a top-k "
          "of "
          "those.\n\n") +
      engine_limits() + '\n' + kExitCodeHelp);
  command->callback([options, &action] {
    if (!options->rope_order.empty())
      options->request.engine.rope_order = parse_rope_order(options->rope_order);
    action = [options] { return import_and_judge(*options); };
  });
}

}  // namespace mlacheck
