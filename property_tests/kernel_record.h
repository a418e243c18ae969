#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "property_tests/coverage.h"
#include "property_tests/shrink.h"
#include "tools/report.h"

namespace mlacheck {

// One kind of failure: a check of a kernel, with its status.
struct Failure {
  CheckResult original;  // as it was found
  Recipe recipe = {};    // in which it was
  Shrunk shrunk = {};
  CheckResult result;                  // of the shrunk recipe
  std::vector<std::string> also = {};  // other checks that fail on it
  std::string explanation = {};
  std::int64_t cases = 1;  // in which it was seen
  bool hung = false;
};

// What a campaign has seen of a kernel.
struct KernelRecord {
  KernelRecord(std::string kernel, Operator op) : name(std::move(kernel)), coverage(op) {}

  std::string name;
  Coverage coverage;
  std::int64_t blind = 0;       // cases that could have shown nothing
  std::int64_t improbable = 0;  // cases that were so on one seed alone
  std::int64_t elements = 0;    // judged
  double budget_used = 0;       // the largest share of a proven bound in a case that passed
  std::string budget_used_by;   // its repro
  bool retired = false;         // its library has hung too often
  std::string given_up;         // the call that was stopped when the time was over
  std::int64_t untried = 0;     // given recipes for which, or for whose laws, no time was left
  std::map<std::string, bool>
      trusted;  // checks that went right: whether any was more than MISTRUSTED
  std::vector<Failure> failures;

  // Of a check that did not go wrong: the budget that it used, and whether it is trusted.
  void note_right(const CheckResult& result);
};

// Cases that a clean kernel may show as IMPROBABLE among so many judged elements: more happen in
// one campaign of a million. Each element is outside of the statistical bound with probability 2e-9
// at most (kLambda); those of a case are not independent, so cases are counted.
std::int64_t improbable_allowance(std::int64_t elements);

// The failures, or how the kernel passed: MISTRUSTED where a campaign that draws its cases had none
// that would have shown some class of error, all passes of a check were, or its time was too short.
std::vector<CheckResult> verdicts(const KernelRecord& record, bool drew_cases);

}  // namespace mlacheck
