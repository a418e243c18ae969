#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tools/stopwatch.h"

namespace mlacheck {

inline constexpr double kSecondsToExplain = 10;  // a failure, at most

// The seconds that variants of a case are tried for. One takes about as long as another.
class Patience {
 public:
  explicit Patience(double seconds = std::numeric_limits<double>::infinity()) : seconds_(seconds) {}

  // Does it where there is time for what takes as long as the longest so far.
  template <class Try>
  void spend(const Try& attempt) {
    ++variants_;
    if (left() < longest_) return;
    const Stopwatch watch;
    attempt();
    longest_ = std::max(longest_, watch.seconds());
    ++tried_;
  }

  double left() const { return seconds_ - watch_.seconds(); }
  std::int64_t variants() const { return variants_; }
  std::int64_t tried() const { return tried_; }

 private:
  Stopwatch watch_;
  double seconds_, longest_ = 0;
  std::int64_t variants_ = 0, tried_ = 0;
};

}  // namespace mlacheck
