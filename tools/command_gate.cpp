#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/plugin/device_memory.h"
#include "fixtures/golden_manifest.h"
#include "fixtures/recipe.h"
#include "property_tests/museum/stored_recipes.h"
#include "tools/case_checks.h"
#include "tools/commands.h"
#include "tools/gate_recipes.h"
#include "tools/golden_checks.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_options.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

struct GateOptions {
  std::filesystem::path golden;
  KernelOptions kernels;
  bool require_gpu = false;
  ReportOptions report;
};

// The library for this machine's GPU, or why there is none to run.
struct GpuKernels {
  std::optional<KernelLibrary> library;
  std::string reason;
};

GpuKernels gpu_kernels(const std::vector<Recipe>& recipes, std::chrono::seconds timeout) {
  if (!find_gpu()) return {std::nullopt, "there is no GPU here"};
  const std::optional<std::filesystem::path> path = gpu_library();
  if (!path)
    return {std::nullopt,
            "libmlacheck_gpu.so is not beside the program: it was built without nvcc"};
  const KernelLibrary library = load_library(*path, timeout);
  // A GPU that the kernels are not built for refuses whatever it is asked.
  std::string reason = "takes none of the gate's recipes";
  for (const Recipe& recipe : recipes)
    for (const mlacheck_kernel* kernel : library.kernels()) {
      const std::optional<CallOutcome> outcome = support_of(library, *kernel, recipe);
      if (!outcome) continue;
      if (outcome->kind == CallOutcome::Kind::done) return {library, ""};
      reason = outcome->detail;
    }
  return {std::nullopt, fmt::format("{}: {}", path->filename().string(), reason)};
}

// Unless all refuse it: one that crashes when it is asked is to be seen.
bool takes(const KernelLibrary& library, const Recipe& recipe) {
  return std::ranges::any_of(library.kernels(), [&](const mlacheck_kernel* kernel) {
    const std::optional<CallOutcome> outcome = support_of(library, *kernel, recipe);
    return outcome && outcome->kind != CallOutcome::Kind::refused;
  });
}

void check_records(const std::filesystem::path& folder, const GoldenCheckOptions& options,
                   Report& report) {
  // Files without a manifest are refused with it.
  bool holds_some = false;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      holds_some |= is_golden_name(entry.path()) || entry.path().filename() == kManifestName;
  if (holds_some) {
    check_golden_folder(folder, options, report);
    return;
  }
  report.add(
      {"device records", Status::skipped, fmt::format("{} holds none", folder.string()), "", 0});
}

int run_gate(const GateOptions& options) {
  const std::filesystem::path folder = options.golden.empty() ? golden_folder() : options.golden;
  const std::chrono::seconds timeout = options.kernels.timeout();
  std::vector<KernelLibrary> libraries = options.kernels.load();
  libraries.insert(libraries.begin(), load_library(reference_library(), timeout));
  const std::vector<Recipe> recipes = gate_recipes();
  const GpuKernels gpu = gpu_kernels(recipes, timeout);
  if (options.require_gpu && !gpu.library)
    throw std::runtime_error(fmt::format("--require-gpu: {}", gpu.reason));
  // The project's own kernels, each on the recipes that it takes.
  std::vector<KernelLibrary> kernels = {load_library(emulated_library(), timeout)};
  if (gpu.library) kernels.push_back(*gpu.library);

  Report report("gate", options.report);
  const Interruption interruption;
  GoldenCheckOptions golden;
  golden.libraries = libraries;
  golden.gpu = gpu.library ? &*gpu.library : nullptr;
  check_golden_folder(folder, golden, report);
  check_records(folder / "device_records", golden, report);
  std::size_t done = 0;
  for (const Recipe& recipe : recipes) {
    if (Interruption::requested()) break;
    report.progress(done++, recipes.size(), minimal(recipe));
    std::vector<KernelLibrary> judged = libraries;
    std::ranges::copy_if(kernels, std::back_inserter(judged),
                         [&](const KernelLibrary& library) { return takes(library, recipe); });
    for (CheckResult& result : check_recipe(recipe, judged)) {
      result.name = fmt::format("{}: {}", minimal(recipe), result.name);
      report.add(std::move(result));
    }
  }
  for (const KernelLibrary& library : libraries)
    for (CheckResult& result : check_end(library, "mlacheck gate" + kernel_options_of(library)))
      report.add(std::move(result));
  for (const KernelLibrary& library : kernels)
    for (CheckResult& result : check_end(library, "mlacheck gate")) report.add(std::move(result));
  if (Interruption::requested()) return report.finish();
  report.progress(done, recipes.size(), "museum");
  for (CheckResult& result :
       museum::replay(museum::read_stored_recipes(museum_recipes()), [](int seconds) {
         return load_library(museum_library(), std::chrono::seconds(seconds));
       }))
    report.add(std::move(result));
  if (!gpu.library) report.add({"kernels on a GPU", Status::skipped, gpu.reason, "", 0});
  return report.finish();
}

}  // namespace

void add_gate(CLI::App& app, Action& action) {
  auto options = std::make_shared<GateOptions>();
  CLI::App* command = app.add_subcommand(
      "gate", "The verdict for CI: golden files, exact fills and kernels, with no GPU needed");
  command->add_option("--golden", options->golden,
                      "Folder of golden files (default: the project's)");
  add_kernel_options(*command, options->kernels);
  command->add_flag("--require-gpu", options->require_gpu,
                    "Exit with 3 when kernels cannot run on a GPU");
  add_report_options(*command, options->report);
  command->footer(kExitCodeHelp);
  command->callback([options, &action] { action = [options] { return run_gate(*options); }; });
}

}  // namespace mlacheck
