#pragma once

#include <cstdint>

#include "reference/arithmetic/tensor_core_rules.h"

namespace mlacheck::detail {

// The exponents of MmaBlockA and MmaBlockB for values without one. Sums stay far outside the real
// range of -252 ... 254: a product with a zero factor is below kNoProduct, one with an Inf or NaN
// factor above every finite one.
inline constexpr int kZeroExponent = -1000;
inline constexpr int kSpecialExponent = 8000;
inline constexpr int kNoProduct = -500;

// The fast form holds while emax is in here: then no product or scale leaves fp32's normal range
// unless it is too small to count. Outputs outside go to the integer model one by one.
inline constexpr int kLeastEmax = -90;
inline constexpr int kMostEmax = 120;

// One variant of the fast form, compiled for its instruction set.
struct TensorCoreKernel {
  // n pairs of element bits (k even in the low half) to values and exponents.
  void (*unpack)(const FloatFormat& format, const std::uint32_t* pairs, int n, float* even,
                 float* odd, std::uint32_t* exponents);
  // mma_chain.
  void (*chain)(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b,
                std::int64_t instructions, float (&c)[16][8]);
};

// These two and the baseline are three builds of tensor_core_kernel.inc.
extern const TensorCoreKernel kPortableKernel;
#if defined(__x86_64__)
extern const TensorCoreKernel kAvx2Kernel;
extern const TensorCoreKernel kAvx512Kernel;
#endif

// That of the instruction set in use.
const TensorCoreKernel& tensor_core_kernel();

// The integer model on prepared operands: row m, column n, `products` values of k from pair `pair`
// of the block on.
float fused_step_of_blocks(const MmaRules& rules, const MmaBlockA* a, const MmaBlockB* b, int pair,
                           int m, int n, float c);

}  // namespace mlacheck::detail
