#include "cuda/emulator/interval_set.h"

#include <algorithm>

namespace mlacheck::emulator {

std::vector<Interval>::const_iterator IntervalSet::ending_after(std::uintptr_t address) const {
  return std::upper_bound(intervals_.begin(), intervals_.end(), address,
                          [](std::uintptr_t a, const Interval& i) { return a < i.end; });
}

bool IntervalSet::contains(Interval interval) const {
  const auto it = ending_after(interval.begin);
  return it != intervals_.end() && it->begin <= interval.begin && interval.end <= it->end;
}

bool IntervalSet::overlaps(Interval interval) const {
  const auto it = ending_after(interval.begin);
  return it != intervals_.end() && it->begin < interval.end;
}

void IntervalSet::insert(const std::vector<Interval>& intervals) {
  intervals_.insert(intervals_.end(), intervals.begin(), intervals.end());
  std::sort(intervals_.begin(), intervals_.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& i : intervals_)
    if (!merged.empty() && i.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, i.end);
    else
      merged.push_back(i);
  intervals_ = std::move(merged);
}

void IntervalSet::erase(Interval interval) {
  std::vector<Interval> left;
  for (const Interval& i : intervals_) {
    if (i.begin < interval.begin) left.push_back({i.begin, std::min(i.end, interval.begin)});
    if (i.end > interval.end) left.push_back({std::max(i.begin, interval.end), i.end});
  }
  intervals_ = std::move(left);
}

}  // namespace mlacheck::emulator
