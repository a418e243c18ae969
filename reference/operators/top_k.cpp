#include "reference/operators/top_k.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "reference/operators/require.h"

namespace mlacheck {
namespace {

// Orders scores as integers: NaN is 0, below -inf; -0 and +0 are one value.
std::uint32_t order_key(float score) {
  if (score != score) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// Larger is better: the score, then the lower index.
std::uint64_t rank_of(float score, std::int64_t index) {
  return std::uint64_t{order_key(score)} << 32 | (0xffffffffu - static_cast<std::uint32_t>(index));
}

}  // namespace

void top_k(const float* scores, std::int64_t begin, std::int64_t end, std::int64_t k,
           std::int32_t* indices) {
  detail::require(begin >= 0 && begin <= end && end <= std::int64_t{1} << 31,
                  "range: expected 0 <= begin <= end <= 2^31, got [{}, {})", begin, end);
  detail::require(k >= 0, "k: expected >= 0, got {}", k);

  std::vector<std::uint64_t> ranks(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i)
    ranks[static_cast<std::size_t>(i - begin)] = rank_of(scores[i], i);
  const std::int64_t count = std::min(k, end - begin);
  if (count < end - begin)
    std::nth_element(ranks.begin(), ranks.begin() + count, ranks.end(), std::greater<>());
  for (std::int64_t j = 0; j < count; ++j)
    indices[j] = static_cast<std::int32_t>(
        0xffffffffu - static_cast<std::uint32_t>(ranks[static_cast<std::size_t>(j)]));
  std::sort(indices, indices + count);
  std::fill(indices + count, indices + k, -1);
}

}  // namespace mlacheck
