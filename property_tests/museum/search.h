#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"
#include "property_tests/campaign.h"
#include "property_tests/museum/flat_rules.h"
#include "tools/report.h"

namespace mlacheck::museum {

using LoadLibrary = std::function<KernelLibrary()>;

// Kernels without a fault are named so.
inline constexpr std::string_view kHonest = "honest_";

// The museum's library, which is loaded again after a call that did not come back.
class Museum {
 public:
  explicit Museum(LoadLibrary load) : load_(std::move(load)), library_(load_()) {}

  const KernelLibrary& library() const { return library_; }
  const mlacheck_kernel& kernel(const std::string& name) const { return library_.kernel(name); }
  std::vector<std::string> names() const;

  std::vector<CheckResult> check(const std::string& name, const Recipe& recipe);
  FlatVerdicts flat(const std::string& name, const Recipe& recipe) const;

 private:
  LoadLibrary load_;
  KernelLibrary library_;
};

// A check's name without library and kernel: "sparse_attention.lse", "second run"; "call" where the
// call itself did not end well.
std::string check_of(const CheckResult& result);

// Cases that a flat rule flags, of those that it applies to.
struct FlatScore {
  std::int64_t flagged = 0;
  std::int64_t of = 0;

  void add(FlatVerdict verdict) {
    of += verdict != FlatVerdict::not_applicable ? 1 : 0;
    flagged += verdict == FlatVerdict::catches ? 1 : 0;
  }
};
using FlatScores = std::array<FlatScore, kFlatRules.size()>;

struct SearchResult {
  std::int64_t cases = 0;  // tried, the one that caught it too
  double seconds = 0;      // until then
  std::optional<Failure> failure;
  // On the case that caught it; where nothing did on the first kFlatCases.
  FlatScores flat = {};
  std::string error;  // why it could not go on: memory or processes are short
};
inline constexpr std::int64_t kFlatCases = 200;

// A campaign that ends with the first failure. `progress` is told how many cases were tried, and
// says whether to go on.
SearchResult search(Museum& museum, const std::string& name, const CampaignPlan& plan,
                    const std::function<bool(std::int64_t)>& progress);

}  // namespace mlacheck::museum
