#include "tools/golden_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "fixtures/activations/engine_compare.h"
#include "fixtures/capture_compare.h"
#include "fixtures/device_record.h"
#include "fixtures/golden_file.h"
#include "fixtures/golden_manifest.h"
#include "fixtures/layer_golden.h"
#include "fixtures/layer_golden_oracle.h"
#include "fixtures/operator_golden.h"
#include "reference/verdict/check_layer.h"
#include "tools/case_checks.h"
#include "tools/device_record_run.h"
#include "tools/golden_sources.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/layer_kernels.h"
#include "tools/reference_library.h"
#include "tools/shell_word.h"
#include "tools/stopwatch.h"

namespace mlacheck {

namespace {

// The worst finding of a group, in one line; the others are named when they are no PASS.
void add_group(Report& report, const std::string& name, const std::vector<Finding>& findings,
               const std::string& repro, const Stopwatch& stopwatch) {
  CheckResult result;
  result.name = name;
  result.repro = repro;
  std::int64_t elements = 0;
  double ratio = 0;
  for (const Finding& finding : findings) {
    elements += finding.elements;
    ratio = std::max(ratio, finding.ratio);
    if (finding.status == Status::pass) continue;
    result.status = std::max(result.status, finding.status);
    result.detail += fmt::format("{}{}", result.detail.empty() ? "" : "\n", to_string(finding));
  }
  if (result.detail.empty())
    result.detail =
        fmt::format("{} outputs, {} elements{}", findings.size(), elements,
                    ratio > 0 ? fmt::format(", budget used {:.0f} %", 100 * ratio) : "");
  result.seconds = stopwatch.seconds();
  report.add(std::move(result));
}

std::string golden_check_of(const std::string& path) {
  return "mlacheck golden check " + shell_word(path);
}

// The gate on the folder of a golden, which checks more than `golden check` does.
std::string gate_of(const std::filesystem::path& folder) {
  return "mlacheck gate --golden " + (folder.empty() ? "." : shell_word(folder.string()));
}

void check_operator(const std::string& file, const std::string& path, const Golden& golden,
                    const GoldenCheckOptions& options, Report& report) {
  const Recipe recipe = parse_recipe(golden.text("recipe"));
  const std::string repro = golden_check_of(path);
  const Stopwatch stopwatch;
  add_group(report, file + " bits", replay_operator_golden(golden), repro, stopwatch);
  if (options.stored_oracle) {
    const Stopwatch asked;
    const std::vector<Finding> findings = replay_operator_oracle(golden);
    // top_k is exact: its goldens keep nothing of an oracle.
    if (!findings.empty()) add_group(report, file + " intervals", findings, repro, asked);
  }
  for (CheckResult& result : check_recipe(recipe, options.libraries)) {
    result.name = fmt::format("{} {}", file, result.name);
    report.add(std::move(result));
  }
}

// What another implementation recorded, against ours.
void check_recording(const std::string& name, const std::vector<StageComparison>& stages,
                     const std::string& repro, Report& report) {
  std::string detail;
  Status status = Status::pass;
  for (const StageComparison& stage : stages) {
    status = std::max(status, stage.status);
    if (stage.status != Status::pass || &stage == &stages.back())
      detail += fmt::format("{}{}: {}", detail.empty() ? "" : "\n", stage.stage, stage.detail);
  }
  report.add({name, status, detail, repro, 0});
}

void check_layer_golden(const std::string& file, const std::string& path, const Golden& golden,
                        const GoldenCheckOptions& options, Report& report) {
  const LayerGolden layer = read_layer_golden(golden);
  const std::string name = fmt::format("{} layer {}", file, layer.layer);
  std::string repro = golden_check_of(path);
  if (!layer.weights_seed && options.checkpoint.empty()) {
    report.add({name + " bits", Status::skipped,
                "was captured from a checkpoint: give it with --checkpoint", repro, 0});
    return;
  }
  if (!layer.weights_seed) repro += " --checkpoint " + shell_word(options.checkpoint.string());
  Stopwatch stopwatch;
  const LayerWeights weights = weights_of(layer, options.checkpoint);
  const LayerStages stages = attention_layer(layer.sizes, layer.numerics, weights, layer.input);
  add_group(report, name + " bits", compare_with_golden(golden, stages), repro, stopwatch);
  stopwatch = {};
  if (options.stored_oracle)
    add_group(report, name + " intervals", replay_layer_oracle(golden, layer, stages), repro,
              stopwatch);
  stopwatch = {};
  add_group(report, name + " oracle",
            check_layer(layer.sizes, layer.numerics, weights, layer.input, stages), repro,
            stopwatch);
  if (layer.captured)
    check_recording(name + " recording", compare_stages(layer.sizes, *layer.captured, stages),
                    repro, report);
  if (layer.engine)
    check_recording(name + " engine",
                    compare_engine(layer.sizes, layer.numerics, layer.input, *layer.engine, stages),
                    repro, report);

  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const KernelLibrary& library : options.libraries)
    report.add(
        worst_of(fmt::format("{} {}", name, library.path().filename().string()),
                 check_layer_kernels(layer.sizes, layer.numerics, layer.input, stages, library,
                                     gate_of(folder) + kernel_options_of(library))));
}

void check_device_records(const std::string& file, const std::string& path, const Golden& golden,
                          const GoldenCheckOptions& options, Report& report) {
  const DeviceRecords records = read_device_records(golden);
  // All rows of a large record take the emulator some minutes.
  constexpr std::chrono::hours kLong{1};
  replay_records(
      {file, golden_check_of(path) + (options.all_rows ? " --all-rows" : ""),
       options.stored_oracle && !options.all_rows, options.all_rows},
      records, load_library(emulated_library(), options.all_rows ? kLong : kKernelTimeout), report);
  if (options.gpu != nullptr)
    replay_records({.name = file,
                    .repro = gate_of(std::filesystem::path(path).parent_path().parent_path()) +
                             " --require-gpu"},
                   records, *options.gpu, report);
}

}  // namespace

std::vector<std::filesystem::path> golden_files(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    std::error_code unknown;  // told where the file is read
    if (!std::filesystem::is_directory(path, unknown)) {
      files.emplace_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path))
      if (is_golden_name(entry.path())) files.push_back(entry.path());
    if (files.size() == before)
      throw std::runtime_error(fmt::format("{}: holds no .h5 file", path));
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check_golden_folder(const std::filesystem::path& folder, const GoldenCheckOptions& options,
                         Report& report) {
  const std::map<std::string, std::string> manifest = read_manifest(folder);
  if (manifest.empty())
    report.error(fmt::format("{}: names no golden file", (folder / kManifestName).string()));
  for (const std::filesystem::path& file : golden_files({folder.string()}))
    if (!manifest.contains(file.filename().string()))
      report.error(fmt::format("{}: is not in the manifest", file.string()));
  std::size_t done = 0;
  for (const auto& [name, digest] : manifest) {
    if (Interruption::requested()) return;
    report.progress(done++, manifest.size(), name);
    GoldenCheckOptions one = options;
    one.digest = digest;
    check_golden_file(folder / name, one, report);
  }
}

void check_golden_file(const std::filesystem::path& path, const GoldenCheckOptions& options,
                       Report& report) {
  const std::string file = path.filename().string();
  try {
    const Golden golden = read_golden(path);
    if (!options.digest.empty() && golden_digest(golden) != options.digest)
      throw std::runtime_error(fmt::format("{}: its content is {}, the manifest has {}",
                                           path.string(), golden_digest(golden), options.digest));
    if (golden.text("kind") == "operator") {
      check_operator(file, path.string(), golden, options, report);
      return;
    }
    if (golden.text("kind") == kDeviceRecordsKind) {
      check_device_records(file, path.string(), golden, options, report);
      return;
    }
    for (const Golden& layer : split_layers(golden))
      check_layer_golden(file, path.string(), layer, options, report);
  } catch (const std::exception& error) {  // memory that is not to be had, too: others can be read
    const std::string what = error.what();
    report.error(what.starts_with(path.string()) ? what
                                                 : fmt::format("{}: {}", path.string(), what));
  }
}

}  // namespace mlacheck
