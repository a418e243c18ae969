#pragma once

#include <cstdint>
#include <functional>

#include "fixtures/recipe.h"

namespace mlacheck {

// What a search may take before it hands back what it has.
struct ShrinkBudget {
  std::int64_t trials = 1000;
  double seconds = 20;
};

struct Shrunk {
  Recipe recipe;
  // Whether the failing recipe failed again when it was asked; it is handed back as it was if not.
  bool reproduced = false;
  // No step of the search makes it smaller: no size can be one less, no key be left out, no flag be
  // off. False: the budget ended the search.
  bool minimal = false;
  std::int64_t trials = 0;
  double seconds = 0;
};

// The smallest recipe found that still fails, by the same steps every time: sizes down to the
// smallest power of two, page boundary or one past it that fails, and down to the last one that
// does; flags off, one by one; a minimal set of entries of a row by delta debugging (ddmin: Zeller,
// Hildebrandt 2002); simpler values, seed 1; and again until nothing is left to do. still_fails is
// asked of valid recipes alone, and should look for the same failure; the last one of which it says
// so is the result.
Shrunk shrink(const Recipe& failing, const std::function<bool(const Recipe&)>& still_fails,
              const ShrinkBudget& budget = {});

}  // namespace mlacheck
