#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "property_tests/campaign.h"
#include "property_tests/museum/search.h"
#include "tools/commands.h"
#include "tools/interruption.h"
#include "tools/judgements.h"
#include "tools/reference_library.h"
#include "tools/report_options.h"

namespace mlacheck {

namespace {

using museum::FlatScores;
using museum::kFlatRules;
using museum::SearchResult;

struct MuseumOptions {
  std::vector<std::string> faults;  // none: all
  CampaignPlan plan;
  ReportOptions report;
};

// For each, where nothing else is asked for.
constexpr std::int64_t kMostCases = 2000;
constexpr double kMostSeconds = 60;
// Enough for the largest case that is drawn; one exhibit hangs.
constexpr std::chrono::seconds kTimeout{5};

bool is_honest(std::string_view name) { return name.starts_with(museum::kHonest); }

// The rules that flag the case of a fault; of a kernel without one, how many of its cases each
// flags.
std::string flags(const std::string& name, const FlatScores& scores) {
  std::vector<std::string> flags;
  for (std::size_t i = 0; i < kFlatRules.size(); ++i) {
    if (scores[i].flagged == 0) continue;
    flags.push_back(is_honest(name) ? fmt::format("{}: {} of {}", kFlatRules[i], scores[i].flagged,
                                                  scores[i].of)
                                    : std::string(kFlatRules[i]));
  }
  return flags.empty() ? "none" : fmt::format("{}", fmt::join(flags, ", "));
}

// The check that gives a fault away.
std::string check_of(const SearchResult& found) {
  return found.failure ? museum::check_of(found.failure->original) : "not caught";
}

struct Found {
  std::string name;
  SearchResult result;
};

// A line each, as a table of Markdown, in the order of the museum; then all faults in one.
std::string table(const std::vector<Found>& searches) {
  std::string text =
      "| exhibit | cases | seconds | caught by | flat rules that flag it |\n|---|---|---|---|---|";
  std::vector<std::pair<std::int64_t, std::string>> cases;
  FlatScores flat = {};
  double longest = 0;
  std::int64_t faults = 0;
  for (const auto& [name, result] : searches) {
    text += fmt::format("\n| `{}` | {} | {:.1f} | {} | {} |", name, result.cases, result.seconds,
                        check_of(result), flags(name, result.flat));
    if (is_honest(name)) continue;
    ++faults;
    if (!result.failure) continue;
    cases.emplace_back(result.cases, name);
    longest = std::max(longest, result.seconds);
    for (std::size_t i = 0; i < flat.size(); ++i) {
      flat[i].flagged += result.flat[i].flagged;
      flat[i].of += result.flat[i].of;
    }
  }
  std::ranges::sort(cases);
  text += fmt::format("\n\n{} of {} faults caught", cases.size(), faults);
  if (!cases.empty())
    text += fmt::format(": after {} cases in the median, {} at most ({}), {:.1f} s at most",
                        cases[cases.size() / 2].first, cases.back().first, cases.back().second,
                        longest);
  std::vector<std::string> rules;
  for (std::size_t i = 0; i < flat.size(); ++i)
    if (flat[i].of > 0)
      rules.push_back(fmt::format("{} flags {} of {}", kFlatRules[i], flat[i].flagged, flat[i].of));
  if (!rules.empty()) text += fmt::format("\nof these cases {}", fmt::join(rules, ", "));
  return text;
}

// A fault must be caught; a kernel without one must not be.
CheckResult to_result(const Found& found, const CampaignPlan& plan) {
  const auto& [name, search] = found;
  CheckResult result;
  result.name = name;
  result.status = search.failure.has_value() == is_honest(name) ? Status::fail : Status::pass;
  result.seconds = search.seconds;
  const std::string flat = flags(name, search.flat);
  if (search.failure) {
    const Failure& failure = *search.failure;
    const std::string check = museum::check_of(failure.original);
    result.detail = fmt::format("{} by {} in case {}\n{}: {}: {}\nfirst: {}\nflat rules: {}\n{}",
                                name_of(failure.original.status), check, search.cases, name, check,
                                minimal(failure.shrunk.recipe), failure.original.repro, flat,
                                failure.original.detail);
  } else {
    result.detail = fmt::format("not caught in {} cases\nflat rules: {}", search.cases, flat);
  }
  result.repro = fmt::format("mlacheck museum --fault {} --seed {}", name, plan.seed);
  if (plan.cases != kMostCases) result.repro += fmt::format(" --cases {}", plan.cases);
  if (plan.seconds != kMostSeconds) result.repro += fmt::format(" --seconds {}", plan.seconds);
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

museum::Museum open_museum() {
  return museum::Museum([] { return load_library(museum_library(), kTimeout); });
}

// Searches side by side: as many as OpenMP would have threads, each with one.
class Searches {
 public:
  Searches(std::vector<std::string> names, const MuseumOptions& options)
      : names_(std::move(names)), plan_(options.plan), report_("museum", options.report) {
    found_.resize(names_.size());
  }

  int run() {
    const Interruption interruption;
    {
      std::vector<std::jthread> threads;
      const auto most = static_cast<std::size_t>(omp_get_max_threads());
      for (std::size_t i = 0; i < std::min(most, names_.size()); ++i)
        threads.emplace_back([this] { search_some(); });
    }
    std::vector<Found> done;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (found_[i]) done.push_back({names_[i], std::move(*found_[i])});
    report_.note(table(done));
    return report_.finish();
  }

 private:
  void search_some() {
    omp_set_num_threads(1);
    try {
      museum::Museum museum = open_museum();
      while (const std::optional<std::size_t> i = next()) search(museum, *i);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      report_.error(error.what());
    }
  }

  std::optional<std::size_t> next() {
    const std::lock_guard lock(mutex_);
    if (next_ == names_.size() || Interruption::requested()) return std::nullopt;
    return next_++;
  }

  void search(museum::Museum& museum, std::size_t i) {
    const std::string& name = names_[i];
    SearchResult result = museum::search(museum, name, plan_, [&](std::int64_t cases) {
      const std::lock_guard lock(mutex_);
      report_.progress(done_, names_.size(), fmt::format("{}: {} cases", name, cases));
      return !Interruption::requested();
    });
    const std::lock_guard lock(mutex_);
    ++done_;
    if (!result.error.empty()) report_.error(fmt::format("{}: {}", name, result.error));
    if (Interruption::requested() && !result.failure) return;
    report_.add(to_result({name, result}, plan_));
    found_[i] = std::move(result);
  }

  std::vector<std::string> names_;
  const CampaignPlan& plan_;
  std::mutex mutex_;  // of what follows
  Report report_;
  std::size_t next_ = 0;
  std::size_t done_ = 0;
  std::vector<std::optional<SearchResult>> found_;
};

int run_museum(const MuseumOptions& options) {
  return Searches(chosen(open_museum().names(), options.faults), options).run();
}

}  // namespace

void add_museum(CLI::App& app, Action& action) {
  auto options = std::make_shared<MuseumOptions>();
  options->report.details = true;
  options->plan.cases = kMostCases;
  options->plan.seconds = kMostSeconds;
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
      ->check(positive_and_finite())
      ->capture_default_str();
  add_report_options(*command, options->report);
  command->footer(
      fmt::format("As many exhibits are searched side by side as there are processors, or "
                  "OMP_NUM_THREADS, each "
                  "by one\nthread. The last lines are the table of what was found.\n\n{}",
                  kExitCodeHelp));
  command->callback([options, &action] { action = [options] { return run_museum(*options); }; });
}

}  // namespace mlacheck
