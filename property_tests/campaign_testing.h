#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "property_tests/campaign.h"

// Kernels that are functions, and a watcher that notes what it is told.
namespace mlacheck {

inline CheckResult result(Status status, const Recipe& recipe, const std::string& check = "out",
                          std::int64_t elements = 0, double budget_used = 0) {
  return {
      "mine:kernel " + check, status, "", "repeat " + minimal(recipe), 0, elements, budget_used};
}

// A top_k kernel of which a function of the recipe says how it ended.
inline Contestant top_k_kernel(const std::function<Status(const TopKRecipe&)>& status) {
  return {"mine:kernel", MLACHECK_TOP_K,
          [status](const Recipe& recipe) -> std::vector<CheckResult> {
            const auto* r = std::get_if<TopKRecipe>(&recipe);
            if (r == nullptr) return {};
            return {result(status(*r), recipe)};
          }};
}

struct Watcher : CampaignWatcher {
  std::vector<Recipe> tried;
  std::vector<std::string> events;
  std::size_t most = 1'000'000;

  void starts(const Contestant&, const Recipe& recipe, std::int64_t) override {
    tried.push_back(recipe);
  }
  void found(const CheckResult& found) override { events.push_back("found " + found.name); }
  void shrunk(const Failure& failure) override {
    events.push_back("shrunk to " + minimal(failure.shrunk.recipe));
  }
  void hung(const Failure& failure) override { events.push_back("hung " + failure.result.name); }
  void not_appended(const Failure& failure, const std::string& error) override {
    events.push_back("not appended " + failure.result.name + ": " + error);
  }
  void ran_out(std::int64_t left_out) override {
    events.push_back("ran out, " + std::to_string(left_out) + " left out");
  }
  bool stops() override { return tried.size() >= most; }
};

inline CampaignPlan plan_of(std::int64_t cases) {
  CampaignPlan plan;
  plan.cases = cases;
  return plan;
}

}  // namespace mlacheck
