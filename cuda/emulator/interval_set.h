#pragma once

#include <cstdint>
#include <vector>

namespace mlacheck::emulator {

// Addresses begin ... end - 1.
struct Interval {
  std::uintptr_t begin;
  std::uintptr_t end;
};

// Disjoint intervals in ascending order.
class IntervalSet {
 public:
  bool contains(Interval interval) const;
  bool overlaps(Interval interval) const;
  // In any order, overlapping or not.
  void insert(const std::vector<Interval>& intervals);
  void erase(Interval interval);
  void clear() { intervals_.clear(); }

 private:
  // The first that ends behind `address`.
  std::vector<Interval>::const_iterator ending_after(std::uintptr_t address) const;

  std::vector<Interval> intervals_;
};

}  // namespace mlacheck::emulator
