#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "fixtures/golden_diff.h"
#include "fixtures/golden_file.h"
#include "fixtures/golden_manifest.h"
#include "tools/commands.h"
#include "tools/golden_checks.h"
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
