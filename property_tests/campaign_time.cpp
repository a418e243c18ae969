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

bool CampaignTime::count(bool is_left_out) {
  left_out_ += is_left_out ? 1 : 0;
  left_out_at_once_ = is_left_out ? left_out_at_once_ + 1 : 0;
  return is_left_out;
}

bool CampaignTime::leaves_out(std::size_t kernel, const Recipe& recipe) {
  const double size = size_of(recipe);
  const auto most = static_cast<int>(power_of(size));
  double seconds = 0;
  for (int power = most; power >= std::max(most - kNear, 0) && seconds == 0; --power)
    seconds = longest_[kernel][static_cast<std::size_t>(power)] * std::ldexp(size, -power);
  return count(seconds > left());
}

bool CampaignTime::leaves_out_laws(double seconds_of_case) {
  return count(kLaws * (seconds_of_case - kSecondsOfAny) > left());
}

void CampaignTime::note(std::size_t kernel, const Recipe& recipe, double seconds) {
  double& longest = longest_[kernel][power_of(size_of(recipe))];
  longest = std::max(longest, seconds);
}

ShrinkBudget CampaignTime::for_shrinking(double seconds_of_case) const {
  ShrinkBudget budget = shrinking_;
  const double after = std::min(shrinking_.seconds, seconds_ / 10);
  budget.seconds = std::clamp(left() + after, 0.0, shrinking_.seconds);
  if (budget.seconds < seconds_of_case) budget.seconds = 0;
  return budget;
}

}  // namespace mlacheck
