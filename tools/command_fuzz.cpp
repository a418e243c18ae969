#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/fills/error_class.h"
#include "property_tests/campaign.h"
#include "property_tests/laws/law.h"
#include "property_tests/stages/stage.h"
#include "tools/call_deadline.h"
#include "tools/campaign_display.h"
#include "tools/commands.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/kernel_checks.h"
#include "tools/kernel_options.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"
#include "tools/shell_word.h"

namespace mlacheck {

namespace {

constexpr std::chrono::seconds kCallTimeout{30};
constexpr const char* kWhole = "0/1";

struct FuzzOptions {
  KernelOptions kernels;
  std::vector<std::string> operators;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> cases;
  std::optional<double> seconds;
  std::string shard = kWhole;
  std::string regressions;
  std::string batch;
  bool stop_on_first = false;
  ReportOptions report;
};

constexpr double kSeconds = 60;

// "i/n"
std::pair<std::int64_t, std::int64_t> parse_shard(const std::string& text) {
  std::int64_t shard = -1, shards = 0;
  const char* const end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, shard);
  const bool read = error == std::errc() && slash != end && *slash == '/' &&
                    std::from_chars(slash + 1, end, shards).ptr == end;
  if (!read || shard < 0 || shard >= shards)
    throw std::invalid_argument(
        fmt::format("--shard {}: expected i/n with 0 <= i < n, as in 0/4", text));
  return {shard, shards};
}

// The emulated kernels where they were built, else the reference.
std::string usual_library() {
  try {
    return emulated_library().string();
  } catch (const std::runtime_error&) {
    return reference_library().string();
  }
}

std::vector<Contestant> contestants_of(const std::vector<KernelLibrary>& libraries,
                                       const std::vector<std::string>& operators) {
  std::vector<Contestant> contestants;
  for (const KernelLibrary& library : libraries)
    for (const mlacheck_kernel* kernel : library.kernels()) {
      const std::string_view op = operator_name(kernel->op);
      if (!operators.empty() && std::ranges::find(operators, op) == operators.end()) continue;
      Contestant& contestant = contestants.emplace_back();
      contestant.name = fmt::format("{}:{}", library.path().filename().string(), kernel->name);
      contestant.op = static_cast<Operator>(kernel->op);
      contestant.trial = [&library, kernel](const Recipe& recipe) {
        return check_kernel(recipe, library, *kernel);
      };
      contestant.repro = [&library](const Recipe& recipe) { return repro_of(recipe, &library); };
      contestant.laws = [&library, kernel](const Recipe& recipe, std::string_view only) {
        return check_laws(recipe, library, *kernel, only);
      };
      contestant.explain = [&library, kernel](std::span<const Recipe> recipes, double seconds) {
        return explain_failure(recipes, library, *kernel, seconds);
      };
      contestant.supports = [&library, kernel](const Recipe& recipe) {
        return check_support(recipe, library, *kernel);
      };
      contestant.hangs = [&library] { return library.hangs(); };
    }
  return contestants;
}

CampaignPlan plan_of(const FuzzOptions& options) {
  CampaignPlan plan;
  plan.seed = options.seed;
  std::tie(plan.shard, plan.shards) = parse_shard(options.shard);
  if (!options.batch.empty()) {
    plan.given = read_batch(options.batch);
    plan.draws = false;
    for (const Recipe& recipe : plan.given)
      if (std::holds_alternative<LayerRecipe>(recipe))
        throw std::invalid_argument(fmt::format(
            "{}: '{}' is for mlacheck run: layers are not fuzzed", options.batch, minimal(recipe)));
  }
  if (options.cases) plan.cases = *options.cases;
  if (options.seconds || (!options.cases && plan.draws))
    plan.seconds = options.seconds.value_or(kSeconds);
  plan.stop_on_first = options.stop_on_first;
  return plan;
}

std::string errors_help() {
  std::string text =
      "The errors of the line 'would show', each with the number of cases that would have:\n";
  for (int i = 0; i < kErrorClasses; ++i) {
    const auto error = static_cast<ErrorClass>(i);
    text += fmt::format("  {:<18}{}\n", name_of(error), in_words(error));
  }
  return text;
}

// The campaign again, of one library.
std::string command_of(const FuzzOptions& options, const KernelLibrary& library) {
  std::string command = "mlacheck fuzz" + kernel_options_of(library, kCallTimeout);
  for (const std::string& op : options.operators) command += " --op " + op;
  command += fmt::format(" --seed {}", options.seed);
  if (options.cases) command += fmt::format(" --cases {}", *options.cases);
  if (options.seconds) command += fmt::format(" --seconds {}", *options.seconds);
  if (options.shard != kWhole) command += " --shard " + options.shard;
  for (const auto& [option, file] :
       {std::pair("--regressions", &options.regressions), std::pair("--batch", &options.batch)})
    if (!file->empty()) command += fmt::format(" {} {}", option, shell_word(*file));
  if (options.stop_on_first) command += " --stop-on-first";
  return command;
}

int fuzz(const FuzzOptions& options) {
  // A failure in Python is tried again and again while it is shrunk: its traceback is run's to
  // print.
  setenv("MLACHECK_TRACEBACKS", "0", 0);
  CampaignPlan plan = plan_of(options);
  std::optional<RegressionFile> regressions;
  if (!options.regressions.empty()) plan.regressions = &regressions.emplace(options.regressions);
  KernelOptions kernels = options.kernels;
  if (kernels.libraries.empty()) kernels.libraries.push_back(usual_library());
  const std::vector<KernelLibrary> libraries = kernels.load();
  const std::vector<Contestant> contestants = contestants_of(libraries, options.operators);
  if (contestants.empty())
    throw std::invalid_argument(fmt::format("no kernel of {} among those of {}",
                                            fmt::join(options.operators, ", "),
                                            fmt::join(kernels.libraries, ", ")));

  Report report("fuzz", options.report);
  for (const KernelLibrary& library : libraries)
    report.note(fmt::format("fuzz: {} {} of {}, seed {}, shard {}", library.name(),
                            library.version(), library.path().string(), options.seed,
                            options.shard));
  std::optional<Interruption> interruption(std::in_place);
  CampaignDisplay display(report, options.report.details && !report.on_terminal());
  std::optional<CallDeadline> deadline(std::in_place, 1.1 * plan.seconds + 1);
  const std::vector<KernelRecord> records = run_campaign(contestants, plan, display);
  const bool gave_up = deadline->has_passed(), interrupted = Interruption::requested();
  deadline.reset();
  interruption.reset();  // what the campaign has found until then is reported

  for (const Operator op : kOperators) {
    Coverage coverage(op);
    for (const KernelRecord& record : records)
      if (record.coverage.op() == op) coverage.merge(record.coverage);
    if (coverage.judged() > 0) report.note(coverage.table());
  }
  for (const KernelRecord& record : records)
    for (CheckResult& result : verdicts(record, plan.draws)) report.add(std::move(result));
  if (!interrupted)
    for (const KernelLibrary& library : libraries)
      for (CheckResult& result : check_end(library, command_of(options, library)))
        report.add(std::move(result));
  if (const std::string lacks = display.not_appended(); !lacks.empty()) report.error(lacks);
  report.note(fmt::format("fuzz: {:.1f} cases/s{}", display.cases_per_second(),
                          interrupted ? ", ended by a signal in " + display.at()
                          : gave_up   ? ", ended by its time in " + display.at()
                                      : display.end()));
  return report.finish();
}

}  // namespace

void add_fuzz(CLI::App& app, Action& action) {
  auto options = std::make_shared<FuzzOptions>();
  options->kernels.timeout_seconds = static_cast<int>(kCallTimeout.count());
  CLI::App* command =
      app.add_subcommand("fuzz", "Random cases that aim, until a budget: failures are shrunk");
  add_kernel_options(
      *command, options->kernels,
      "Kernel library (.so, or .py) to fuzz; may be repeated. Default: the project's own "
      "kernels on the emulator, else the reference");
  std::vector<std::string> names;
  for (const Operator op : kOperators) names.emplace_back(operator_name(op));
  command
      ->add_option("--op", options->operators, "Operators to fuzz; may be repeated. Default: all")
      ->check(CLI::IsMember(names));
  command->add_option("--seed", options->seed, "Of the series of cases")->capture_default_str();
  command->add_option("--cases", options->cases, "Drawn cases at most")->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--seconds", options->seconds,
          "Seconds at most, and a tenth more for shrinking what is found last; a call that is "
          "still under way then is given up, and its kernel no more than MISTRUSTED. Default: 60, "
          "without end where --cases or --batch is given")
      ->check(positive_and_finite());
  command->add_option("--shard", options->shard, "i/n: this one of n machines that share no case")
      ->capture_default_str();
  command->add_option("--regressions", options->regressions,
                      "Recipes that are tried first; the smallest one of each failure is appended");
  command
      ->add_option("--batch", options->batch,
                   "These recipes in place of drawn ones: shapes_<operator>_<name>.txt,\n"
                   "set_<operator>_<name>.txt, test_<name>_smoke.txt or test_<name>_ci.txt")
      ->check(CLI::ExistingFile);
  command->add_flag("--stop-on-first", options->stop_on_first, "End with the first failure");
  add_report_options(*command, options->report);
  command->footer(
      fmt::format("The same seed gives the same cases on every machine. Every recipe that is "
                  "printed is repeated\n"
                  "by mlacheck run. Ctrl-C ends a campaign with its report; so does SIGTERM. With "
                  "--verbose and no\n"
                  "terminal, each recipe is printed before it runs.\n\n{}\n{}",
                  errors_help(), kExitCodeHelp));
  command->callback([options, &action] { action = [options] { return fuzz(*options); }; });
}

}  // namespace mlacheck
