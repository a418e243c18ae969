#pragma once

// Test helper: every correct top-k of a handful of score boxes, by trying all selections against
// all corners.

#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mlacheck::testing {

struct Boxes {
  std::vector<double> scores;  // small integers, so that ties abound; NaN at times
  std::vector<double> radii;
};

inline rc::Gen<Boxes> small_boxes() {
  return rc::gen::exec([] {
    // At full size: small ones are soon exhausted.
    const auto n = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, 8));
    Boxes boxes;
    for (std::size_t i = 0; i < n; ++i) {
      const int score = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(-4, 5));
      const bool nan = *rc::gen::inRange(0, 16) == 15;
      boxes.scores.push_back(nan ? std::numeric_limits<double>::quiet_NaN()
                                 : static_cast<double>(score));
      boxes.radii.push_back(*rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 4)) * 0.5);
    }
    return boxes;
  });
}

// Whether `selection` is a top-k of these scores, ties falling as they like.
inline bool is_top_k(const std::vector<double>& scores, std::uint32_t selection) {
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (((selection >> i) & 1u) != 0)
      least = std::min(least, scores[i]);
    else
      greatest = std::max(greatest, scores[i]);
  }
  return least >= greatest;
}

// Selections (bit i: index i) that are a top-k of some corner of the boxes. NaN ranks below every
// number.
inline std::vector<std::uint32_t> all_admissible_selections(const Boxes& boxes, std::int64_t k) {
  const std::size_t n = boxes.scores.size();
  std::vector<std::uint32_t> found;
  for (std::uint32_t selection = 0; selection < 1u << n; ++selection) {
    if (std::popcount(selection) != std::min(k, static_cast<std::int64_t>(n))) continue;
    for (std::uint32_t corner = 0; corner < 1u << n; ++corner) {
      std::vector<double> scores(n);
      for (std::size_t i = 0; i < n; ++i)
        scores[i] = std::isnan(boxes.scores[i])
                        ? -1e9
                        : boxes.scores[i] + (((corner >> i) & 1u) != 0 ? 1 : -1) * boxes.radii[i];
      if (!is_top_k(scores, selection)) continue;
      found.push_back(selection);
      break;
    }
  }
  return found;
}

}  // namespace mlacheck::testing
