#include "tools/campaign_display.h"

#include <fmt/format.h>

#include "cuda/plugin/call_stop.h"
#include "tools/interruption.h"

namespace mlacheck {

namespace {

constexpr double kSecondsBetweenLines = 30;   // of progress in a log
constexpr double kSecondsBetweenMoves = 0.1;  // on a terminal

}  // namespace

void CampaignDisplay::starts(const Contestant& contestant, const Recipe& recipe,
                             std::int64_t cases) {
  cases_ = cases;
  const std::string line = minimal(recipe);
  at_ = fmt::format("{}: {}", contestant.name, contestant.repro(recipe));
  Interruption::set_last_words(fmt::format("\nmlacheck fuzz: died in {}\n", at_));
  if (prints_each_) report_.note(fmt::format("{}: {}", contestant.name, line));
  if (last_move_.seconds() > kSecondsBetweenMoves) {
    report_.progress(static_cast<std::size_t>(cases), 0, fmt::format("{}; {}", state(), line));
    last_move_ = {};
  }
  if (last_line_.seconds() > kSecondsBetweenLines && !report_.on_terminal()) {
    report_.note(fmt::format("{} cases, {}", cases, state()));
    last_line_ = {};
  }
}

void CampaignDisplay::found(const CheckResult& result) {
  report_.note(fmt::format("{}: {}: {}\n           repeat: {}\n           shrinking it",
                           name_of(result.status), result.name, result.detail, result.repro));
}

void CampaignDisplay::shrunk(const Failure& failure) {
  ++failures_;
  report_.note(
      fmt::format("           to: {} ({} tries)", failure.result.repro, failure.shrunk.trials));
}

void CampaignDisplay::hung(const Failure& failure) {
  ++failures_;
  report_.note(fmt::format("{}: {}: {}\n           repeat: {}\n           not shrunk: it hung",
                           name_of(failure.result.status), failure.result.name,
                           failure.result.detail, failure.result.repro));
}

void CampaignDisplay::not_appended(const Failure&, const std::string& error) {
  if (not_appended_++ == 0) write_error_ = error;
}

void CampaignDisplay::ran_out(std::int64_t left_out) {
  end_ = ", ended by its time";
  if (left_out > 0)
    end_ += fmt::format(": {} cases, or their laws, would have taken more than was left", left_out);
}

bool CampaignDisplay::stops() { return calls_stopped(); }

std::string CampaignDisplay::not_appended() const {
  return not_appended_ == 0 ? ""
                            : fmt::format("--regressions: {} failures were not appended: {}",
                                          not_appended_, write_error_);
}

std::string CampaignDisplay::state() const {
  return fmt::format("{:.0f} cases/s, {} failures", cases_per_second(), failures_);
}

}  // namespace mlacheck
