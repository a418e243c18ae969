#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fixtures/capture_file.h"
#include "fixtures/golden_diff.h"
#include "fixtures/golden_file.h"
#include "fixtures/golden_manifest.h"
#include "tools/commands.h"
#include "tools/golden_checks.h"
#include "tools/golden_replacement.h"
#include "tools/report_files.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

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

void show(const AttributeMap& attributes) {
  for (const auto& [name, value] : attributes)
    fmt::print("  {} = {}\n", name, printable(text_of(value)));
}

// The first of them: all that a line has room for.
std::string sample_of(const Dataset& dataset) {
  constexpr std::size_t kShown = 4;
  std::string sample;
  for (std::size_t i = 0; i < std::min(dataset.size(), kShown); ++i)
    sample += fmt::format(" {:.6g}", dataset.value(i));
  return sample + (dataset.size() > kShown ? " ..." : "");
}

void show(const std::string& name, std::string_view type, const Shape& shape,
          const std::string& sample) {
  fmt::print("  {:<44} {:<5} {:<16}{}\n", printable(name), type, to_string(shape), sample);
}

void show_capture(const CaptureFile& capture) {
  fmt::print("{}: a capture, which `mlacheck oracle` judges\n", capture.path().string());
  show(capture.attributes());
  for (const std::string& name : capture.datasets()) {
    CaptureBytes array = capture.read_bytes(name);
    const std::string sample =
        array.dtype ? sample_of({*array.dtype, array.shape, std::move(array.bytes), {}}) : "";
    show(name, array.type, array.shape, sample);
  }
}

void show_golden(const std::filesystem::path& path, const Golden& golden) {
  fmt::print("{}: schema version {}, content {}\n", path.string(), kGoldenSchemaVersion,
             golden_digest(golden));
  show(golden.attributes);
  for (const auto& [name, dataset] : golden.datasets)
    show(name, name_of(dataset.dtype), dataset.shape, sample_of(dataset));
}

int show(const std::filesystem::path& path) {
  if (is_capture(path))
    show_capture(CaptureFile(path));
  else
    show_golden(path, read_golden(path));
  return kExitPass;
}

void add_show(CLI::App& golden, Action& action) {
  auto path = std::make_shared<std::filesystem::path>();
  CLI::App* command =
      golden.add_subcommand("show", "Attributes and datasets of a golden file or a capture");
  command->add_option("file", *path, "A golden file, or a capture")->required();
  command->callback([path, &action] { action = [path] { return show(*path); }; });
}

// ---- diff ----

int diff(const std::filesystem::path& left, const std::filesystem::path& right) {
  const GoldenDiff difference = compare(read_golden(left), read_golden(right));
  for (const AttributeDifference& a : difference.attributes)
    fmt::print("{}@{}: {} | {}\n", a.object, a.name, a.left ? text_of(*a.left) : "(missing)",
               a.right ? text_of(*a.right) : "(missing)");
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
  add_golden_capture(*golden, action);
  add_golden_import(*golden, action);
  add_golden_synthesize(*golden, action);
  add_golden_record(*golden, action);
  add_check(*golden, action);
  add_show(*golden, action);
  add_diff(*golden, action);
  add_manifest(*golden, action);
}

}  // namespace mlacheck
