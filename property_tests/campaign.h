#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "property_tests/kernel_record.h"
#include "property_tests/recipe_file.h"
#include "property_tests/shrink.h"
#include "tools/report.h"

namespace mlacheck {

// Puts a case to the kernel under test: what every check said. Empty where the recipe is none for
// it.
using Trial = std::function<std::vector<CheckResult>(const Recipe&)>;

// A kernel under test.
struct Contestant {
  std::string name;
  Operator op = MLACHECK_SPARSE_ATTENTION;
  Trial trial;
  // Laws, put to a case in kLawsEvery and to those that are given, where it passes: all of them, or
  // the one whose result is named so. Null: none.
  std::function<std::vector<CheckResult>(const Recipe&, std::string_view only)> laws = nullptr;
  // Whether it supports a recipe's problem: PASS where it does. Null: it is never asked, and draws
  // are not narrowed.
  std::function<CheckResult(const Recipe&)> supports = nullptr;
  // What is likely to be wrong, of recipes that fail alike: words for the report. May be null.
  std::function<std::string(std::span<const Recipe>, double seconds)> explain = nullptr;
  // How often its library has hung; after kMostHangs times it is not called again. Null: never.
  std::function<std::int64_t()> hangs = nullptr;
  // The command that repeats a case. Null: its recipe says enough.
  std::function<std::string(const Recipe&)> repro = nullptr;
};

inline constexpr std::int64_t kLawsEvery = 8;

struct CampaignPlan {
  std::vector<Recipe> given;  // tried first, after those of the regression file
  bool draws = true;          // then recipes `shard`, `shard` + `shards`, ... of the series `seed`
  std::uint64_t seed = 1;
  std::int64_t shard = 0;
  std::int64_t shards = 1;
  std::int64_t cases = std::numeric_limits<std::int64_t>::max();  // drawn recipes put to kernels
  double seconds = std::numeric_limits<double>::infinity();
  bool stop_on_first = false;
  ShrinkBudget shrinking;
  RegressionFile* regressions = nullptr;  // gets the smallest recipe of every failure
};

// Told what happens as it happens; the campaign itself prints nothing.
class CampaignWatcher {
 public:
  CampaignWatcher() = default;
  CampaignWatcher(const CampaignWatcher&) = delete;
  CampaignWatcher& operator=(const CampaignWatcher&) = delete;
  virtual ~CampaignWatcher() = default;

  // Before each case, and each that shrinking tries: it may be the last thing that is heard.
  virtual void starts(const Contestant&, const Recipe&, std::int64_t /*cases so far*/) {}
  // A failure as it was found, before it is shrunk.
  virtual void found(const CheckResult&) {}
  virtual void shrunk(const Failure&) {}
  // A failure that is not shrunk, as every try costs what a call may take.
  virtual void hung(const Failure&) {}
  // A failure that the regression file did not get.
  virtual void not_appended(const Failure&, const std::string& /*error*/) {}
  // A case that could not be tried, of which the campaign ends: memory or processes are short.
  virtual void broke(const std::string& /*error*/) {}
  // The seconds are over, or so many cases were left out, as they or their laws would have taken
  // more of them than were left.
  virtual void ran_out(std::int64_t /*left out*/) {}
  // Asked before and after each case; what a case gave while it was told to stop counts for
  // nothing, but a call that was stopped after the plan's seconds is noted.
  virtual bool stops() { return false; }
};

// Puts cases to kernels until plan or watcher ends it. The same plan tries the same cases in the
// same order; shards share none. It ends when its seconds are over: cases that would take longer
// than is left are left out (campaign_time.h), which of those that are given is noted. A check that
// fails is shrunk and kept once, however often it fails. A case that hangs is kept as it is, and
// the campaign goes on until a library has hung kMostHangs times. An IMPROBABLE is tried on another
// seed: it is kept if it is there again, else counted against its declared rate.
std::vector<KernelRecord> run_campaign(std::span<const Contestant> contestants,
                                       const CampaignPlan& plan, CampaignWatcher& watcher);

}  // namespace mlacheck
