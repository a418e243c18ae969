#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "property_tests/campaign.h"
#include "property_tests/museum/search.h"
#include "tools/commands.h"
#include "tools/judgements.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

using museum::FlatVerdict;
using museum::FlatVerdicts;
using museum::kFlatRules;
using museum::SearchResult;

struct MuseumOptions {
  std::vector<std::string> faults;  // none: all
  CampaignPlan plan;
  ReportOptions report;
};

// Enough for the largest case that is drawn; one exhibit hangs.
constexpr std::chrono::seconds kTimeout{5};

std::string words(const FlatVerdicts& verdicts) {
  std::string text;
  for (std::size_t i = 0; i < kFlatRules.size(); ++i)
    if (verdicts[i] == FlatVerdict::catches)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", kFlatRules[i]);
  return text.empty() ? "none" : text;
}

// Faults that a rule caught, of those that it applies to.
struct Score {
  std::int64_t caught = 0;
  std::int64_t of = 0;

  void add(FlatVerdict verdict) {
    if (verdict == FlatVerdict::not_applicable) return;
    ++of;
    if (verdict == FlatVerdict::catches) ++caught;
  }
  std::string words() const { return fmt::format("{} of {}", caught, of); }
};

struct Summary {
  std::vector<std::int64_t> cases;  // until each fault was caught
  std::int64_t faults = 0;
  std::array<Score, kFlatRules.size()> on_case, on_tried;

  void add(const SearchResult& result) {
    ++faults;
    if (result.failure) cases.push_back(result.cases);
    for (std::size_t i = 0; i < kFlatRules.size(); ++i) {
      on_case[i].add(result.flat_of_case[i]);
      on_tried[i].add(result.flat_of_tried[i]);
    }
  }
  CheckResult result() {
    std::ranges::sort(cases);
    std::string text = fmt::format("{} of {} by mlacheck", cases.size(), faults);
    if (!cases.empty())
      text += fmt::format("; after {} cases in the median, {} at most", cases[cases.size() / 2],
                          cases.back());
    for (std::size_t i = 0; i < kFlatRules.size(); ++i)
      text += fmt::format("\n{} by {} on the same case, {} on all that were tried",
                          on_case[i].words(), kFlatRules[i], on_tried[i].words());
    return {"faults caught", Status::pass, text, "", 0};
  }
};

// A fault must be caught; a kernel without one must not be.
CheckResult to_result(const std::string& name, const SearchResult& found,
                      const CampaignPlan& plan) {
  const bool honest = name.starts_with(museum::kHonest);
  CheckResult result;
  result.name = name;
  result.status = found.failure.has_value() == honest ? Status::fail : Status::pass;
  result.seconds = found.seconds;
  if (found.failure) {
    const Failure& failure = *found.failure;
    const std::string check = museum::check_of(failure.original);
    result.detail = fmt::format(
        "{} by {} in case {}\n{}: {}: {}\nfirst: {}\nflat rules: {}; of all cases tried: {}\n{}",
        name_of(failure.original.status), check, found.cases, name, check,
        minimal(failure.shrunk.recipe), failure.original.repro, words(found.flat_of_case),
        words(found.flat_of_tried), failure.original.detail);
  } else {
    result.detail = fmt::format("not caught in {} cases\nflat rules: {}", found.cases,
                                words(found.flat_of_tried));
  }
  result.repro = fmt::format("mlacheck museum --fault {} --seed {}", name, plan.seed);
  return result;
}

std::vector<std::string> chosen(const std::vector<std::string>& all,
                                const std::vector<std::string>& faults) {
  for (const std::string& fault : faults)
    if (std::ranges::find(all, fault) == all.end())
      throw std::invalid_argument(
          fmt::format("--fault {}: expected one of {}", fault, fmt::join(all, ", ")));
  return faults.empty() ? all : faults;
}

int run_museum(const MuseumOptions& options) {
  museum::Museum exhibits([] { return load_library(museum_library(), kTimeout); });
  const std::vector<std::string> names = chosen(exhibits.names(), options.faults);
  Report report("museum", options.report);
  Summary summary;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const SearchResult found =
        museum::search(exhibits, names[i], options.plan, [&](std::int64_t cases) {
          report.progress(i, names.size(), fmt::format("{}: {} cases", names[i], cases));
        });
    if (!names[i].starts_with(museum::kHonest)) summary.add(found);
    report.add(to_result(names[i], found, options.plan));
  }
  if (summary.faults > 0) report.add(summary.result());
  return report.finish();
}

}  // namespace

void add_museum(CLI::App& app, Action& action) {
  auto options = std::make_shared<MuseumOptions>();
  options->report.details = true;
  options->plan.cases = 2000;
  options->plan.seconds = 60;
  options->plan.shrinking = {.trials = 300, .seconds = 10};
  CLI::App* command = app.add_subcommand(
      "museum", "The harness itself: kernels with planted faults of the field, all to be caught");
  command->add_option("--fault", options->faults,
                      "Exhibit to be tried; may be repeated. Without: all, and the kernels without "
                      "fault, which must pass");
  command->add_option("--seed", options->plan.seed, "Of the recipes that are drawn")
      ->capture_default_str();
  command->add_option("--cases", options->plan.cases, "At most so many for each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--seconds", options->plan.seconds, "At most so long for each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_report_options(*command, options->report);
  command->footer(kExitCodeHelp);
  command->callback([options, &action] { action = [options] { return run_museum(*options); }; });
}

}  // namespace mlacheck
