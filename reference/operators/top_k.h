#pragma once

#include <cstdint>

namespace mlacheck {

// Exact top-k of scores[begin .. end): the min(k, end - begin) largest, written to indices[0 .. k)
// as ascending absolute indices into scores and padded with -1. Ties: lowest index wins. -0 equals
// +0. NaN loses against every number, -inf included; among NaN the lowest index wins.
// Throws std::invalid_argument unless 0 <= begin <= end <= 2^31 and k >= 0.
void top_k(const float* scores, std::int64_t begin, std::int64_t end, std::int64_t k,
           std::int32_t* indices);

}  // namespace mlacheck
