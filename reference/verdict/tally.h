#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "reference/formats/dtype.h"
#include "reference/verdict/budget_picture.h"
#include "reference/verdict/interval.h"
#include "reference/verdict/verdict.h"

namespace mlacheck {

// Collects the judgements of an output's elements, then states the finding. Tallies of parts (one a
// thread) are merged; the result does not depend on how the elements were split but for the
// cosine's last digits.
class Tally {
 public:
  explicit Tally(DType dtype, Axes axes = {"row", "column", nullptr})
      : dtype_(dtype), axes_(axes) {}

  void add(std::array<std::int64_t, 3> at, const ElementBound& bound, float got);
  void merge(const Tally& other);

  // IMPROBABLE from the first element on: see kLambda for how rarely a clean kernel shows one.
  // MISTRUSTED instead of PASS when an element has no bound, or when zeros would have passed for
  // nearly all of sum |expected|; of an output that is negligible throughout, zeros and its
  // negative.
  Finding finding(std::string stage) const;

 private:
  static constexpr double kZerosShare = 15.0 / 16;
  static constexpr double kNegligible = 0x1p-90;  // a sink's tiny factor may leave 0 of the value
  static constexpr double kBinsPerUnit = 512;     // resolution of p99.9
  // The last bin takes the rest.
  static constexpr auto kBins = static_cast<std::size_t>(kMaxQuantile * kBinsPerUnit);

  bool is_worse(Status status, double ratio, const std::array<std::int64_t, 3>& at) const;
  BudgetPicture picture() const;

  DType dtype_;
  Axes axes_;
  std::int64_t elements_ = 0;
  std::int64_t failed_ = 0;
  std::int64_t improbable_ = 0;
  std::int64_t unbounded_ = 0;
  std::int64_t of_any_value_ = 0;
  double magnitude_ = 0;           // sum |expected| of the elements that an interval judges
  double magnitude_of_zeros_ = 0;  // ... of those whose interval zero passes
  double negligible_ = 0;          // the same of the elements below kNegligible
  double negligible_either_ = 0;   // ... of those whose interval zero and the negative pass
  Status worst_status_ = Status::pass;
  Finding worst_;
  double max_ratio_ = 0;
  std::int64_t max_ulp_ = 0;
  double max_abs_ = 0;
  double product_ = 0;  // <got, expected>
  double squares_ = 0;  // |got|^2 + |expected|^2
  std::array<std::int64_t, kBins> histogram_{};
  HeatMap first_two_;  // coordinates
  HeatMap last_two_;
};

// A thread's part of a tally, which it joins when it goes.
template <class Whole>
class TallyPart {
 public:
  TallyPart(Whole& whole, std::mutex& mutex, const Whole& empty)
      : whole_(&whole), mutex_(mutex), part_(empty) {}
  TallyPart(TallyPart&& other) noexcept
      : whole_(std::exchange(other.whole_, nullptr)),
        mutex_(other.mutex_),
        part_(std::move(other.part_)) {}
  ~TallyPart() {
    if (whole_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    whole_->merge(part_);
  }

  Whole* operator->() { return &part_; }

 private:
  Whole* whole_;
  std::mutex& mutex_;
  Whole part_;
};

}  // namespace mlacheck
