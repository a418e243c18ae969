#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fixtures/capture_compare.h"
#include "fixtures/capture_compare_model.h"
#include "fixtures/capture_file.h"
#include "fixtures/checkpoint/hash_checkpoint.h"
#include "fixtures/model/model_recording.h"
#include "tools/commands.h"
#include "tools/golden_checks.h"
#include "tools/judgements.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_options.h"
#include "tools/layer_kernels.h"
#include "tools/report_options.h"
#include "tools/shell_word.h"
#include "tools/stopwatch.h"

namespace mlacheck {

namespace {

// Both are HDF5: a golden file would only be found to lack what a capture has.
void require_capture(const std::filesystem::path& path) {
  if (CaptureFile(path).has_attribute("schema"))
    throw Hdf5Error(path.string(), "/@schema",
                    "a golden file, not a capture: `mlacheck golden check` reads it");
}

// A whole model: its forward, layer by layer.
void judge_model(const std::filesystem::path& path, Report& report) {
  compare_model_recording(path, [&](const StageComparison& stage) {
    report.add({.name = fmt::format("{} {}", path.filename().string(), stage.stage),
                .status = stage.status,
                .detail = stage.detail,
                .repro = "mlacheck oracle " + shell_word(path.string())});
  });
}

void judge_capture(const std::filesystem::path& path, const std::vector<KernelLibrary>& libraries,
                   Report& report) {
  require_capture(path);
  if (is_model_recording(path)) return judge_model(path, report);
  const CapturedModel model(path);
  const std::string file = path.filename().string();
  LayerWeights weights;
  std::int64_t weights_layer = -1;
  for (std::size_t i = 0; i < model.groups().size(); ++i) {
    const CapturedModel::Group& group = model.groups()[i];
    const Stopwatch watch;
    const CapturedLayer layer = model.read(group);
    const std::string name = fmt::format("{} {}", file, layer.name);
    report.progress(i, model.groups().size(), name);
    if (group.layer != weights_layer)
      weights = hash_layer_weights(model.sizes(), group.layer, model.seed());
    weights_layer = group.layer;
    const LayerNumerics numerics = captured_numerics(model.sizes(), layer);
    const LayerStages ours = run_captured_layer(model.sizes(), numerics, weights, layer);
    for (const StageComparison& stage : compare_stages(model.sizes(), layer, ours))
      report.add({.name = fmt::format("{} {}", name, stage.stage),
                  .status = stage.status,
                  .detail = stage.detail,
                  .repro = "mlacheck oracle " + shell_word(path.string()),
                  .seconds = stage.stage == "output" ? watch.seconds() : 0});
    for (const KernelLibrary& library : libraries) {
      const std::string repro =
          "mlacheck oracle " + shell_word(path.string()) + kernel_options_of(library);
      for (CheckResult& result :
           check_layer_kernels(model.sizes(), numerics, layer.input, ours, library, repro)) {
        result.name = fmt::format("{} {}", name, result.name);
        report.add(std::move(result));
      }
    }
  }
}

int judge_captures(const std::vector<std::string>& files, const KernelOptions& kernels,
                   const ReportOptions& options) {
  const std::vector<KernelLibrary> libraries = kernels.load();
  Report report("oracle", options);
  for (const std::filesystem::path& path : golden_files(files)) {
    const std::string file = path.string();
    try {
      judge_capture(file, libraries, report);
    } catch (const std::runtime_error& error) {  // Hdf5Error, CheckpointError: name the file
      report.error(error.what());
    } catch (const std::exception& error) {
      report.error(fmt::format("{}: {}", file, error.what()));
    }
  }
  std::string all;
  for (const std::string& file : files) all += ' ' + shell_word(file);
  for (const KernelLibrary& library : libraries)
    for (CheckResult& result :
         check_end(library, "mlacheck oracle" + all + kernel_options_of(library)))
      report.add(std::move(result));
  return report.finish();
}

}  // namespace

void add_oracle(CLI::App& app, Action& action) {
  struct Options {
    std::vector<std::string> files;
    KernelOptions kernels;
    ReportOptions report;
  };
  auto options = std::make_shared<Options>();
  options->report.details = true;
  CLI::App* command = app.add_subcommand(
      "oracle", "Compare the layer, stage by stage, with captures of another implementation");
  command
      ->add_option(
          "file", options->files,
          "Captures, as tools/capture_transformers.py records them, or recordings of whole "
          "models, of tools/capture_transformers_model.py; or folders of either")
      ->required();
  add_kernel_options(*command, options->kernels);
  add_report_options(*command, options->report);
  command->footer(
      std::string(
          "Weights and inputs are regenerated from the capture's seed; float64 groups are compared "
          "in\n"
          "fp32, bf16 groups in bf16 numerics, profile hf. Attention is judged on the captured "
          "top-k\n"
          "indices: in rows that select another set, and in layers that share the indices of an "
          "earlier\n"
          "one, that separates it from selection, which is judged by itself. Kernels (--kernel) "
          "get the layer's own\n"
          "operands, in bf16, and attention once more what the library's index_select has "
          "selected.\n\n"
          "What the other implementation rounds is not declared, so that its stages have flat "
          "limits, "
          "not derived\n"
          "ones: relative Frobenius errors, but where the reason says otherwise. Kernels are "
          "judged "
          "by their\n"
          "contracts, as everywhere.\n\n"
          "  stage                 fp64     bf16     reason\n") +
      capture_limits() + "  of a whole model\n" + model_recording_limits() + '\n' + kExitCodeHelp);
  command->callback([options, &action] {
    action = [options] {
      return judge_captures(options->files, options->kernels, options->report);
    };
  });
}

}  // namespace mlacheck
