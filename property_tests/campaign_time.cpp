#include "property_tests/campaign_time.h"

#include <algorithm>
#include <cmath>

#include "property_tests/case_cost.h"

namespace mlacheck {
namespace {

// Of what a case takes, by what was measured: up to 12 times where it is long, beside what any may
// take, a process that is started, say.
constexpr double kLaws = 12;
constexpr double kSecondsOfAny = 0.2;

// Powers of two that a case may be larger by than one that tells of it.
constexpr int kNear = 3;

double size_of(const Recipe& recipe) { return 1 + cost_ms(recipe); }
std::size_t power_of(double size) { return static_cast<std::size_t>(std::ilogb(size)); }

}  // namespace

void CampaignTime::note_left_out() {
  ++left_out_;
  ++left_out_at_once_;
}

bool CampaignTime::fits(std::size_t kernel, const Recipe& recipe) const {
  const double size = size_of(recipe);
  const auto most = static_cast<int>(power_of(size));
  for (int power = most; power >= std::max(most - kNear, 0); --power) {
    const double usual = slowest_[kernel][static_cast<std::size_t>(power)].usual();
    if (usual == 0) continue;
    const double fixed = std::min(usual, kSecondsOfAny);
    return fixed + (usual - fixed) * std::ldexp(size, -power) <= left();
  }
  return left() >= 0;
}

bool CampaignTime::laws_fit(double seconds_of_case) const {
  return kLaws * (seconds_of_case - kSecondsOfAny) <= left();
}

void CampaignTime::note(std::size_t kernel, const Recipe& recipe, double seconds) {
  Slowest& slowest = slowest_[kernel][power_of(size_of(recipe))];
  slowest.second = std::max(slowest.second, std::min(slowest.first, seconds));
  slowest.first = std::max(slowest.first, seconds);
}

ShrinkBudget CampaignTime::for_shrinking(double seconds_of_case) const {
  ShrinkBudget budget = shrinking_;
  const double after = std::min(shrinking_.seconds, seconds_ / 10);
  budget.seconds = std::clamp(left() + after, 0.0, shrinking_.seconds);
  if (budget.seconds < seconds_of_case) budget.seconds = 0;
  return budget;
}

}  // namespace mlacheck
