#pragma once

#include <cstdint>

#include "reference/arithmetic/tensor_core_rules.h"

namespace mlacheck {

// The integer model of one output element: plain, slow, and what the fast one is held to.
// a[K], b[K] are element bits (the low byte for e4m3), K = mma_k(mma).
float mma_slow(Mma mma, const std::uint16_t* a, const std::uint16_t* b, float c);

// The tiles of mma_m16n8k16 and mma_m16n8k32, output by output.
void mma_m16n8k16_slow(Mma mma, const std::uint16_t (&a)[16][16], const std::uint16_t (&b)[16][8],
                       const float (&c)[16][8], float (&d)[16][8]);
void mma_m16n8k32_slow(Mma mma, const std::uint8_t (&a)[16][32], const std::uint8_t (&b)[32][8],
                       const float (&c)[16][8], float (&d)[16][8]);

namespace detail {

// The rules, and three ways to get them wrong: tests show that each is told from the hardware.
struct SlowRules : MmaRules {
  bool round_to_nearest = false;    // the result
  bool align_toward_minus = false;  // terms cut by floor instead of truncation
  bool normalise_products = false;  // 1.5 * 1.5 counts with its own exponent
};

// One fused step: `products` elements of the format, and c.
float fused_step(const SlowRules& rules, const std::uint16_t* a, const std::uint16_t* b,
                 int products, float c);

// The chain of steps that is one instruction.
float mma_slow(const SlowRules& rules, const std::uint16_t* a, const std::uint16_t* b, float c);

}  // namespace detail
}  // namespace mlacheck
