#pragma once

#include <string>

#include "reference/verdict/budget_picture.h"

namespace mlacheck {

// How many elements used how much of their budget, as bars on a logarithmic scale: past 100 % red.
std::string svg_of_budget(const BudgetPicture& picture);

// A plane as coloured cells, with what they stand for beneath: "token 0 ... 3 down, head 0 ... 63
// across".
std::string svg_of_plane(const HeatMap& plane, const std::string& down, const std::string& across);

// What the colours mean.
std::string legend_of_planes();

}  // namespace mlacheck
