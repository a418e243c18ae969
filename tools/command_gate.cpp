#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fixtures/recipe.h"
#include "tools/case_checks.h"
#include "tools/commands.h"
#include "tools/gate_recipes.h"
#include "tools/golden_checks.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

struct GateOptions {
  std::filesystem::path golden;
  std::vector<std::string> libraries;
  bool require_gpu = false;
  ReportOptions report;
};

// Kernels run on a GPU when a build drives one.
constexpr const char* kNoGpu = "this build of mlacheck drives no GPU";

int run_gate(const GateOptions& options) {
  if (options.require_gpu) throw std::runtime_error(fmt::format("--require-gpu: {}", kNoGpu));
  const std::filesystem::path folder = options.golden.empty() ? golden_folder() : options.golden;
  std::vector<KernelLibrary> libraries = {KernelLibrary::open(reference_library())};
  for (const std::string& path : options.libraries) libraries.push_back(KernelLibrary::open(path));
  const std::vector<Recipe> recipes = gate_recipes();

  Report report("gate", options.report);
  GoldenCheckOptions golden;
  golden.libraries = libraries;
  check_golden_folder(folder, golden, report);
  std::size_t done = 0;
  for (const Recipe& recipe : recipes) {
    report.progress(done++, recipes.size(), minimal(recipe));
    for (CheckResult& result : check_recipe(recipe, libraries)) {
      result.name = fmt::format("{}: {}", minimal(recipe), result.name);
      report.add(std::move(result));
    }
  }
  report.add({"kernels on a GPU", Status::skipped, kNoGpu, "", 0});
  return report.finish();
}

}  // namespace

void add_gate(CLI::App& app, Action& action) {
  auto options = std::make_shared<GateOptions>();
  CLI::App* command = app.add_subcommand(
      "gate", "The verdict for CI: golden files, exact fills and kernels, with no GPU needed");
  command->add_option("--golden", options->golden,
                      "Folder of golden files (default: the project's)");
  command->add_option("--kernel", options->libraries,
                      "Kernel library (.so) to judge beside the reference; may be repeated");
  command->add_flag("--require-gpu", options->require_gpu,
                    "Exit with 3 when kernels cannot run on a GPU");
  add_report_options(*command, options->report);
  command->callback([options, &action] { action = [options] { return run_gate(*options); }; });
}

}  // namespace mlacheck
