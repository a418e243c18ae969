#include "property_tests/shrink.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "property_tests/shrink_steps.h"
#include "tools/stopwatch.h"

namespace mlacheck {
namespace {

using Places = std::vector<std::int64_t>;

bool is_valid(const Recipe& recipe) {
  try {
    validate(recipe);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

class Shrinker {
 public:
  Shrinker(const Recipe& failing, const std::function<bool(const Recipe&)>& still_fails,
           const ShrinkBudget& budget)
      : still_fails_(still_fails), budget_(budget) {
    result_.recipe = failing;
  }

  Shrunk run() {
    result_.reproduced = fails(result_.recipe);
    while (result_.reproduced && !spent_) {
      const Recipe before = result_.recipe;
      for (const std::string_view key : detail::size_keys(before)) lower_size(key);
      take_all(detail::plainer);
      leave_out_places();
      take_all(detail::simpler_values);
      if (before != result_.recipe) continue;
      result_.minimal = !spent_ && !left_places_;
      break;
    }
    result_.seconds = watch_.seconds();
    return std::move(result_);
  }

 private:
  // Asks once of each recipe, and of none when the budget is spent.
  bool fails(const Recipe& candidate) {
    if (spent_ || !is_valid(candidate) || !asked_.insert(canonical(candidate)).second) return false;
    // No candidate is larger than what has been found.
    const double begin = watch_.seconds();
    spent_ = result_.trials >= budget_.trials || begin + seconds_of_try_ >= budget_.seconds;
    if (spent_) return false;
    ++result_.trials;
    if (!still_fails_(candidate)) return false;
    seconds_of_try_ = watch_.seconds() - begin;
    return true;
  }

  bool take(const Recipe& candidate) {
    if (!fails(candidate)) return false;
    result_.recipe = candidate;
    return true;
  }

  // The first of the smaller sizes that fails; then by halves between it and the one before, which
  // does not.
  void lower_size(std::string_view key) {
    std::int64_t passes = -1;
    for (const std::int64_t size : detail::smaller_sizes(result_.recipe, key)) {
      if (take(detail::with_size(result_.recipe, key, size))) break;
      passes = size;
    }
    while (passes >= 0 && detail::size_of(result_.recipe, key) - passes > 1 && !spent_) {
      const std::int64_t middle = passes + (detail::size_of(result_.recipe, key) - passes) / 2;
      if (!take(detail::with_size(result_.recipe, key, middle))) passes = middle;
    }
  }

  // Steps one by one while one of them can be taken.
  void take_all(std::vector<Recipe> (*steps)(const Recipe&)) {
    bool taken = true;
    while (taken && !spent_) {
      const std::vector<Recipe> candidates = steps(result_.recipe);
      taken = std::any_of(candidates.begin(), candidates.end(),
                          [&](const Recipe& candidate) { return take(candidate); });
    }
  }

  // A large set would take as many trials as there are: some are kept for the values.
  bool take_places(const Places& kept) {
    left_places_ = left_places_ || result_.trials > budget_.trials / 4 * 3 ||
                   watch_.seconds() > budget_.seconds / 4 * 3;
    return !left_places_ && take(detail::with_places(result_.recipe, kept));
  }

  // ddmin: one of n parts alone, else all but one of them, else twice as many parts, until each is
  // one place.
  void leave_out_places() {
    Places kept = detail::places(result_.recipe);
    left_places_ = false;
    if (kept.empty() || take_places({})) return;
    std::size_t parts = 2;
    while (kept.size() > 1 && !spent_ && !left_places_) {
      if (Places part = first_part_that_fails(kept, parts); !part.empty()) {
        kept = std::move(part);
        parts = 2;
      } else if (Places rest = first_rest_that_fails(kept, parts); !rest.empty()) {
        kept = std::move(rest);
        parts = std::max<std::size_t>(parts - 1, 2);
      } else if (parts == kept.size()) {
        return;
      } else {
        parts = std::min(2 * parts, kept.size());
      }
    }
  }

  static std::pair<std::size_t, std::size_t> part_of(const Places& kept, std::size_t parts,
                                                     std::size_t i) {
    return {kept.size() * i / parts, kept.size() * (i + 1) / parts};
  }

  Places first_part_that_fails(const Places& kept, std::size_t parts) {
    for (std::size_t i = 0; i < parts; ++i) {
      const auto [begin, end] = part_of(kept, parts, i);
      Places part(kept.begin() + static_cast<std::ptrdiff_t>(begin),
                  kept.begin() + static_cast<std::ptrdiff_t>(end));
      if (take_places(part)) return part;
    }
    return {};
  }

  Places first_rest_that_fails(const Places& kept, std::size_t parts) {
    for (std::size_t i = 0; i < parts && parts > 2; ++i) {
      const auto [begin, end] = part_of(kept, parts, i);
      Places rest = kept;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(begin),
                 rest.begin() + static_cast<std::ptrdiff_t>(end));
      if (take_places(rest)) return rest;
    }
    return {};
  }

  const std::function<bool(const Recipe&)>& still_fails_;
  ShrinkBudget budget_;
  Stopwatch watch_;
  double seconds_of_try_ = 0;  // of the smallest that fails
  std::unordered_set<std::string> asked_;
  bool spent_ = false;
  bool left_places_ = false;  // some place may still be left out
  Shrunk result_;
};

}  // namespace

Shrunk shrink(const Recipe& failing, const std::function<bool(const Recipe&)>& still_fails,
              const ShrinkBudget& budget) {
  return Shrinker(failing, still_fails, budget).run();
}

}  // namespace mlacheck
