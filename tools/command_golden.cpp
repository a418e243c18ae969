#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fixtures/golden_diff.h"
#include "fixtures/golden_file.h"
#include "fixtures/golden_manifest.h"
#include "fixtures/hdf5/replace_file.h"
#include "fixtures/recipe.h"
#include "fixtures/regular_file.h"
#include "tools/commands.h"
#include "tools/device_record_origin.h"
#include "tools/device_record_run.h"
#include "tools/golden_checks.h"
#include "tools/golden_sources.h"
#include "tools/model_capture.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

std::string to_text(const Attribute& attribute) {
  struct Text {
    std::string operator()(std::int64_t x) const { return fmt::format("{}", x); }
    std::string operator()(double x) const { return fmt::format("{}", x); }
    std::string operator()(const std::string& x) const { return x; }
  };
  return std::visit(Text{}, attribute);
}

// ---- capture ----

struct CaptureOptions {
  CheckpointRequest checkpoint;
  ModelRequest model;
  std::vector<std::string> layers;
  std::string recipe;
  std::string recording;
  std::string dtype = "fp64";
  std::filesystem::path out;
};

// Before hours of work: goldens are renamed into place, so that no pipe or device will do.
void require_replaceable(const std::filesystem::path& out) { const ReplaceFile probe(out, "\x89"); }

int capture(const CaptureOptions& options) {
  require_replaceable(options.out);
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

void add_capture(CLI::App& golden, Action& action) {
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
                          "File of token ids: between white space, or a JSON list; without one a "
                          "synthetic model gets 16");
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
  command->add_option("--out", options->out, "The golden file to write")->required();
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

// ---- record ----

struct RecordOptions {
  std::string library;
  std::filesystem::path recipes;
  std::filesystem::path out;
  bool emulated = false;
};

std::vector<RecordRequest> read_requests(const std::filesystem::path& path) {
  require_no_special_file(path);
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path.string()));
  try {
    std::vector<RecordRequest> requests = parse_record_requests(text);
    if (requests.empty()) throw std::invalid_argument("holds no recipe");
    return requests;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", path.string(), error.what()));
  }
}

int record(const RecordOptions& options) {
  const std::vector<RecordRequest> requests = read_requests(options.recipes);
  require_replaceable(options.out);
  const KernelLibrary library = load_library(options.library);
  if (is_on_device(library) && options.emulated)
    throw std::invalid_argument(fmt::format(
        "{} wants device memory: no --emulated for what a GPU returns", options.library));
  if (!is_on_device(library) && !options.emulated)
    throw std::invalid_argument(fmt::format(
        "{} runs on host memory, and a device record is what a GPU returned; --emulated "
        "records it all the same",
        options.library));
  std::size_t started = 0;
  const DeviceRecords records =
      record_requests(requests, library, [&](const RecordRequest& request) {
        fmt::print("[{}/{}] {} {}\n", ++started, requests.size(), name_of(request.mode),
                   minimal(request.recipe));
        std::fflush(stdout);
      });
  const Golden golden = make_records_golden(records);
  write_golden(options.out, golden);
  std::int64_t outputs = 0;
  for (const DeviceRecord& one : records.records) outputs += one.outputs();
  fmt::print("{}: {} records, {} outputs of {}, {} bytes, content {}\n", options.out.string(),
             records.records.size(), outputs, records.origin.gpu,
             std::filesystem::file_size(options.out), golden_digest(golden).substr(0, 16));
  return kExitPass;
}

void add_record(CLI::App& golden, Action& action) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command =
      golden.add_subcommand("record",
                            "Run a kernel library on a GPU and keep what it returns, for "
                            "the emulator to be held to");
  command->add_option("--kernel", options->library, "Kernel library (.so) on device memory")
      ->required();
  command
      ->add_option("--recipes", options->recipes,
                   "File of lines 'MODE RECIPE', MODE being default or batch_invariant")
      ->required();
  command->add_option("--out", options->out, "The file of records to write")->required();
  command->add_flag("--emulated", options->emulated, "Take a library on host memory instead");
  command->callback([options, &action] { action = [options] { return record(*options); }; });
}

// ---- check ----

void add_check(CLI::App& golden, Action& action) {
  struct Options {
    std::vector<std::string> files;
    std::filesystem::path checkpoint;
    bool all_rows = false;
    ReportOptions report;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = golden.add_subcommand(
      "check", "Read golden files, recompute what they hold and compare it bit by bit");
  command->add_option("file", options->files, "Golden files or directories")->required();
  command->add_option("--checkpoint", options->checkpoint,
                      "The checkpoint that layers were captured from");
  command->add_flag("--all-rows", options->all_rows,
                    "Replay every row of device records, bits alone (minutes), not some of the "
                    "largest");
  add_report_options(*command, options->report);
  command->footer(kExitCodeHelp);
  command->callback([options, &action] {
    action = [options] {
      Report report("golden check", options->report);
      GoldenCheckOptions check;
      check.checkpoint = options->checkpoint;
      check.stored_oracle = true;
      check.all_rows = options->all_rows;
      for (const std::filesystem::path& file : golden_files(options->files))
        check_golden_file(file, check, report);
      return report.finish();
    };
  });
}

// ---- show ----

int show(const std::filesystem::path& path) {
  const Golden golden = read_golden(path);
  fmt::print("{}: schema version {}, content {}\n", path.string(), kGoldenSchemaVersion,
             golden_digest(golden));
  for (const auto& [name, value] : golden.attributes)
    fmt::print("  {} = {}\n", name, to_text(value));
  for (const auto& [name, dataset] : golden.datasets) {
    std::string sample;
    for (std::size_t i = 0; i < std::min<std::size_t>(dataset.size(), 4); ++i)
      sample += fmt::format(" {:.6g}", dataset.value(i));
    fmt::print("  {:<44} {:<5} {:<16}{}{}\n", name, name_of(dataset.dtype),
               to_string(dataset.shape), sample, dataset.size() > 4 ? " ..." : "");
  }
  return kExitPass;
}

void add_show(CLI::App& golden, Action& action) {
  auto path = std::make_shared<std::filesystem::path>();
  CLI::App* command = golden.add_subcommand("show", "Attributes and datasets of a golden file");
  command->add_option("file", *path, "A golden file")->required();
  command->callback([path, &action] { action = [path] { return show(*path); }; });
}

// ---- diff ----

int diff(const std::filesystem::path& left, const std::filesystem::path& right) {
  const GoldenDiff difference = compare(read_golden(left), read_golden(right));
  for (const AttributeDifference& a : difference.attributes)
    fmt::print("{}@{}: {} | {}\n", a.object, a.name, a.left ? to_text(*a.left) : "(missing)",
               a.right ? to_text(*a.right) : "(missing)");
  for (const std::string& name : difference.only_left)
    fmt::print("only in {}: {}\n", left.string(), name);
  for (const std::string& name : difference.only_right)
    fmt::print("only in {}: {}\n", right.string(), name);
  for (const DatasetDifference& d : difference.datasets) {
    if (d.elements)
      fmt::print("{}: {} elements differ, first at {}, at most {:.3g} ({} ulp)\n", d.path,
                 d.elements->count, d.elements->first, d.elements->max_abs, d.elements->max_ulp);
    else
      fmt::print("{}: type or shape differ\n", d.path);
  }
  return difference.identical() ? kExitPass : kExitFailure;
}

void add_diff(CLI::App& golden, Action& action) {
  struct Options {
    std::filesystem::path left;
    std::filesystem::path right;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      golden.add_subcommand("diff", "How two golden files differ; exits with 1 if they do");
  command->add_option("left", options->left, "A golden file")->required();
  command->add_option("right", options->right, "A golden file")->required();
  command->callback(
      [options, &action] { action = [options] { return diff(options->left, options->right); }; });
}

// ---- manifest ----

void add_manifest(CLI::App& golden, Action& action) {
  auto folder = std::make_shared<std::filesystem::path>();
  CLI::App* command = golden.add_subcommand(
      "manifest", "Write manifest.txt, which the gate holds a folder's golden files to");
  command->add_option("folder", *folder, "A folder of golden files")->required();
  command->callback([folder, &action] {
    action = [folder] {
      write_manifest(*folder);
      return kExitPass;
    };
  });
}

}  // namespace

void add_golden(CLI::App& app, Action& action) {
  CLI::App* golden =
      app.add_subcommand("golden", "Capture, import, record, check, show and compare golden files");
  golden->require_subcommand(1);
  add_capture(*golden, action);
  add_golden_import(*golden, action);
  add_golden_synthesize(*golden, action);
  add_record(*golden, action);
  add_check(*golden, action);
  add_show(*golden, action);
  add_diff(*golden, action);
  add_manifest(*golden, action);
}

}  // namespace mlacheck
