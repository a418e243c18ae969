#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mlacheck {

// What score boxes [score - radius, score + radius] decide about a top-k, and what they leave open.
//
//   forced      in every correct answer:  fewer than k others can reach score - radius
//   forbidden   in no correct answer:     k others stay above score + radius
//   ambiguous   in some answers only: the band
//
// An answer is correct if it is a top-k of some scores inside the boxes, ties falling as they like;
// both counts are exact under that rule. NaN scores are below every number.
enum class Membership : std::uint8_t { forced, ambiguous, forbidden };

struct TopKBand {
  std::vector<Membership> membership;  // one per score
  std::int64_t forced = 0;
  std::int64_t ambiguous = 0;
  std::int64_t forbidden = 0;
};

// O(n log n). An infinite score is exact, whatever its radius. k >= 0.
TopKBand top_k_band(std::span<const double> scores, std::span<const double> radii, std::int64_t k);

// Ends of a score's box. A NaN score gives two NaN.
struct ScoreBox {
  double low;
  double high;
};
ScoreBox score_box(double score, double radius);

// a < b, with NaN below -inf.
bool score_below(double a, double b);

}  // namespace mlacheck
