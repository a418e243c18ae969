#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "property_tests/coverage_classes.h"

namespace mlacheck {

// What a campaign has exercised of an operator, counted by case: every class of every key, and
// which errors would have shown.
class Coverage {
 public:
  explicit Coverage(Operator op);

  // judged: the kernel's answer was; false: it refused the case.
  void count(const Recipe& recipe, bool judged);
  void merge(const Coverage& other);

  Operator op() const { return op_; }
  std::int64_t judged() const { return judged_; }
  std::int64_t refused() const { return refused_; }
  // Errors of the operator that no judged case would have shown: nothing was learnt of them. Not
  // those that many cases would, all of which the kernel has refused.
  std::vector<ErrorClass> never_visible() const;
  // A line for each key, with how many cases each of its classes had; then the errors.
  std::string table() const;

 private:
  // Whether the kernel is known to refuse whatever shows the error.
  bool is_refused(std::size_t error) const;

  Operator op_;
  std::vector<CoverageKey> keys_;
  std::vector<std::vector<std::int64_t>> counts_;  // judged, by key and class
  std::array<std::int64_t, kErrorClasses> visible_ = {};
  std::array<std::int64_t, kErrorClasses> visible_if_judged_ = {};
  std::int64_t judged_ = 0;
  std::int64_t refused_ = 0;
};

}  // namespace mlacheck
