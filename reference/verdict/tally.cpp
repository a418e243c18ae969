#include "reference/verdict/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/operators/require.h"
#include "reference/operators/views.h"

namespace mlacheck {

bool Tally::is_worse(Status status, double ratio, const std::array<std::int64_t, 3>& at) const {
  if (worst_.worst[0] < 0) return true;
  if (status != worst_status_) return status > worst_status_;
  if (ratio != worst_.ratio) return ratio > worst_.ratio;
  return at < worst_.worst;
}

void Tally::add(std::array<std::int64_t, 3> at, const ElementBound& bound, float got) {
  const auto [status, ratio] = judge(bound, dtype_, got);
  ++elements_;
  if (status == Status::fail) ++failed_;
  if (status == Status::improbable) ++improbable_;
  if (status == Status::mistrusted) ++unbounded_;
  ++histogram_[static_cast<std::size_t>(
      std::min(ratio * kBinsPerUnit, static_cast<double>(kBins - 1)))];
  max_ratio_ = std::max(max_ratio_, ratio);
  if (bound.admissible.anything) {
    ++of_any_value_;
  } else {
    const HeatMap::Cell element{status, static_cast<float>(ratio)};
    first_two_.add(at[0], std::max<std::int64_t>(at[1], 0), element);
    if (at[2] >= 0) last_two_.add(at[1], at[2], element);
  }
  const double value = static_cast<double>(got);
  if (bound.admissible.finite && !bound.admissible.anything && std::isfinite(value)) {
    max_abs_ = std::max(max_abs_, std::abs(value - bound.expected));
    const float expected = round_to(dtype_, static_cast<float>(bound.expected));
    max_ulp_ = std::max(max_ulp_, ulp_distance(dtype_, got, expected));
    product_ += value * bound.expected;
    squares_ += value * value + bound.expected * bound.expected;
  }
  if (bound.admissible.finite && !bound.admissible.anything && std::isfinite(bound.expected)) {
    const double magnitude = std::abs(bound.expected);
    const auto passes = [&](float other) {
      return judge(bound, dtype_, other).status < Status::improbable;
    };
    const bool counts = magnitude >= kNegligible;
    (counts ? magnitude_ : negligible_) += magnitude;
    if (counts && passes(0)) magnitude_of_zeros_ += magnitude;
    if (!counts && magnitude > 0 && passes(0) && passes(-static_cast<float>(bound.expected)))
      negligible_either_ += magnitude;
  }
  if (!is_worse(status, ratio, at)) return;
  worst_status_ = status;
  const double likely = std::min(bound.likely, bound.core);
  const double radius = status == Status::improbable ? likely : bound.core;
  const Interval interval = rounded_interval(bound.expected, radius, dtype_);
  worst_.worst = at;
  worst_.expected = bound.expected;
  worst_.low = interval.low;
  worst_.high = interval.high;
  worst_.got = value;
  worst_.ratio = ratio;
  worst_.likely_ratio = std::abs(value - bound.expected) /
                        (likely + 0.5 * spacing(dtype_, std::abs(bound.expected) + likely));
}

void Tally::merge(const Tally& other) {
  detail::require(dtype_ == other.dtype_, "dtype: expected {}, got {}", name_of(dtype_),
                  name_of(other.dtype_));
  elements_ += other.elements_;
  failed_ += other.failed_;
  improbable_ += other.improbable_;
  unbounded_ += other.unbounded_;
  of_any_value_ += other.of_any_value_;
  magnitude_ += other.magnitude_;
  magnitude_of_zeros_ += other.magnitude_of_zeros_;
  negligible_ += other.negligible_;
  negligible_either_ += other.negligible_either_;
  max_ratio_ = std::max(max_ratio_, other.max_ratio_);
  max_ulp_ = std::max(max_ulp_, other.max_ulp_);
  max_abs_ = std::max(max_abs_, other.max_abs_);
  product_ += other.product_;
  squares_ += other.squares_;
  for (std::size_t i = 0; i < kBins; ++i) histogram_[i] += other.histogram_[i];
  first_two_.merge(other.first_two_);
  last_two_.merge(other.last_two_);
  if (other.worst_.worst[0] >= 0 &&
      is_worse(other.worst_status_, other.worst_.ratio, other.worst_.worst)) {
    worst_status_ = other.worst_status_;
    worst_ = other.worst_;
  }
}

BudgetPicture Tally::picture() const {
  constexpr auto kFiner = static_cast<std::size_t>(kBinsPerUnit) / BudgetPicture::kBinsPerUnit;
  BudgetPicture picture{axes_, std::vector<std::int64_t>(BudgetPicture::kBins), {}};
  for (std::size_t i = 0; i < kBins; ++i)
    picture.elements[std::min(i / kFiner, BudgetPicture::kBins - 1)] += histogram_[i];
  picture.elements[0] -= of_any_value_;
  for (const HeatMap& plane : {first_two_, last_two_})
    if (plane.rows() > 0) picture.planes.push_back(plane);
  return picture;
}

Finding Tally::finding(std::string stage) const {
  Finding finding = worst_;
  if (elements_ > of_any_value_) finding.picture = picture();
  finding.stage = std::move(stage);
  finding.status = worst_status_;
  finding.elements = elements_;
  finding.failed = failed_;
  finding.improbable = improbable_;
  finding.max_ulp = max_ulp_;
  finding.max_abs = max_abs_;
  if (unbounded_ > 0) {
    finding.detail = fmt::format(
        "{} elements have no bound: the contract is too loose for this problem", unbounded_);
  } else if (worst_status_ == Status::pass && magnitude_ > 0 &&
             magnitude_of_zeros_ >= kZerosShare * magnitude_) {
    finding.status = Status::mistrusted;
    finding.detail = "a zeroed output would pass";
  } else if (worst_status_ == Status::pass && magnitude_ == 0 && negligible_ > 0 &&
             negligible_either_ >= kZerosShare * negligible_) {
    finding.status = Status::mistrusted;
    finding.detail = "so small that a zeroed or negated output would pass";
  }
  finding.cosine = squares_ > 0 ? 1 - 2 * product_ / squares_ : 0;
  std::int64_t above = 0;
  std::size_t bin = kBins;
  while (bin > 0 && 1000 * (above + histogram_[bin - 1]) <= elements_) above += histogram_[--bin];
  // The upper end of the bin that holds the 99.9 % quantile.
  finding.ratio_p999 = std::min(static_cast<double>(bin) / kBinsPerUnit, max_ratio_);
  return finding;
}

}  // namespace mlacheck
