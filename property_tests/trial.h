#pragma once

#include <functional>
#include <vector>

#include "fixtures/recipe.h"
#include "tools/report.h"

namespace mlacheck {

// Puts a case to the kernel under test: what every check said. Empty where the recipe is none for it.
using Trial = std::function<std::vector<CheckResult>(const Recipe&)>;

}  // namespace mlacheck
