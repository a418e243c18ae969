#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fixtures/recipe.h"
#include "property_tests/laws/law.h"
#include "property_tests/stages/stage.h"
#include "tools/case_checks.h"
#include "tools/commands.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/kernel_check.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_options.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

std::string laws_help() {
  std::string text = "The laws of --laws:\n";
  for (const Law& law : laws()) text += fmt::format("  {:<22}{}\n", law.name, law.says);
  return text;
}

// With the first failure of each kernel, the stage that explains it. Whatever goes wrong meanwhile,
// the failure stays.
void explain_failures(const Recipe& recipe, const KernelLibrary& library,
                      std::vector<CheckResult>& results,
                      const std::function<void(const std::string&)>& say) {
  for (const mlacheck_kernel* kernel : library.kernels()) {
    const std::string name = name_of(library, *kernel);
    const auto failed = std::ranges::find_if(results, [&](const CheckResult& result) {
      return result.status == Status::fail && result.name.starts_with(name + " ");
    });
    if (failed == results.end() || Interruption::requested()) continue;
    say(name + ": FAIL; looking for its stage");
    try {
      const std::string text = explain_failure({&recipe, 1}, library, *kernel, kSecondsToExplain);
      if (!text.empty()) failed->detail += '\n' + text;
    } catch (const std::exception& error) {
      failed->detail += fmt::format("\nstage: not found: {}", error.what());
    }
  }
}

int run_recipe(const std::string& line, const KernelOptions& kernels, bool with_laws,
               const ReportOptions& options) {
  const Recipe recipe = parse_recipe(line);
  const std::vector<KernelLibrary> loaded = kernels.load();

  // Before anything runs, so that a crash still leaves it.
  fmt::print("{}\n", canonical(recipe));
  std::fflush(stdout);

  Report report("run", options);
  const Interruption interruption;
  std::mutex reporting;
  bool any_ran = loaded.empty();
  std::vector<CheckResult> unexplained;  // known, while their stages are being sought
  const auto begin = [&](std::size_t i, const std::string& what) {
    const std::lock_guard lock(reporting);
    report.progress(i, loaded.size() + 1, what);
  };
  const auto add = [&](std::vector<CheckResult> results, bool of_kernels = true) {
    const std::lock_guard lock(reporting);
    if (Interruption::requested()) return;
    unexplained.clear();
    for (CheckResult& result : results) {
      any_ran |= of_kernels && result.status != Status::skipped && result.status != Status::refused;
      report.add_known(std::move(result));
    }
  };
  const bool finished = interruption.finishes([&] {
    begin(0, "reference");
    add(check_reference(recipe), false);
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      begin(i + 1, loaded[i].path().string());
      check_each_kernel(recipe, loaded[i], [&](std::vector<CheckResult> results) {
        {
          const std::lock_guard lock(reporting);
          if (!Interruption::requested()) unexplained = results;
        }
        explain_failures(recipe, loaded[i], results,
                         [&](const std::string& what) { begin(i + 1, what); });
        add(std::move(results));
      });
      for (const mlacheck_kernel* kernel : loaded[i].kernels())
        if (with_laws) add(check_laws(recipe, loaded[i], *kernel));
      add(check_end(loaded[i], repro_of(recipe, &loaded[i])));
    }
  });
  const std::lock_guard lock(reporting);  // for good, where the work goes on
  for (CheckResult& result : unexplained) report.add_known(std::move(result));
  // Not to be unwound: the work goes on in what stands here.
  if (!finished) Interruption::end_at_once([&]() noexcept { return report.finish(); }());
  const int code = report.finish();
  // The reference's verdict is none on kernels that did not run.
  return code == kExitPass && !any_ran ? kExitSkipped : code;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  struct Options {
    std::string recipe;
    KernelOptions kernels;
    bool laws = false;
    ReportOptions report;
  };
  auto options = std::make_shared<Options>();
  options->report.details = true;
  CLI::App* command = app.add_subcommand(
      "run", "One case by its recipe: the reference and kernels, stage by stage");
  command
      ->add_option("recipe", options->recipe, "The case, quoted: 'mlacheck1 op=... key=value ...'")
      ->required();
  add_kernel_options(*command, options->kernels);
  command->add_flag("--laws", options->laws,
                    "Puts the laws to kernels too: changed problems, and what must stay alike");
  add_report_options(*command, options->report);
  command->footer(fmt::format("{}\n{}\n{}", recipe_help(), laws_help(), kExitCodeHelp));
  command->callback([options, &action] {
    action = [options] {
      return run_recipe(options->recipe, options->kernels, options->laws, options->report);
    };
  });
}

}  // namespace mlacheck
