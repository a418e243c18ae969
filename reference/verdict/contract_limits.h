#pragma once

namespace mlacheck {

// What a contract may declare at most. A contract may be loose, but not so loose that its bounds
// would let a zeroed output pass. Each limit leaves room for every kernel of the field.

// A truncating step's alignment loss, block 2^-alignment_bits: 2^-8 for 32 e4m3 products kept to 13
// bits (sm_90).
inline constexpr double kMaxAlignmentLoss = 0x1p-7;

// Relative errors of exponential and logarithm: 2^-9 for one in bf16.
inline constexpr double kMaxFunctionError = 0x1p-8;

// exp_error / tile: what rescales add to a weight for each key, 1/4 over 2,048 keys.
inline constexpr double kMaxRescaleError = 0x1p-13;

// Weights below this, of the row's largest, that may be flushed.
inline constexpr double kMaxUnderflow = 0x1p-20;

// Weights times their scale: 2^8 or 448 for e4m3, 2^15 for f16. Scaled by less than 1/4, e4m3's
// smallest step is more than 2^-7 of the largest weight.
inline constexpr double kMinWeightScale = 0x1p-16;
inline constexpr double kMinE4m3WeightScale = 0x1p-2;
inline constexpr double kMaxWeightScale = 0x1p16;

// log2 by which a weight may exceed 1: 8 in kernels that raise the maximum lazily. With the scale
// above it leaves 2^95 for values and their number before fp32 overflows.
inline constexpr double kMaxHeadroom = 16;

}  // namespace mlacheck
