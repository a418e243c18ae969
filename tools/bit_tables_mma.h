#pragma once

#include <string_view>
#include <vector>

#include "reference/arithmetic/tensor_core.h"

namespace mlacheck {

// Every element type under every lowering that takes it.
inline constexpr Mma kTableMma[] = {
    {DType::f16, Lowering::hmma16_f25},  {DType::f16, Lowering::hmma8_f24},
    {DType::bf16, Lowering::hmma16_f25}, {DType::bf16, Lowering::hmma8_f24},
    {DType::e4m3, Lowering::qmma32_f25}, {DType::e4m3, Lowering::fp8_emulated_sm90},
    {DType::e4m3, Lowering::qmma16_f13},
};

// What the operands of a table hold. Each leads the fast form to another of its branches.
enum class MmaFill {
  normal,      // unit deviation
  wide,        // and magnitudes over the format's range
  tiny,        // subnormals, zeros of both signs; C down to fp32's subnormals
  large,       // near the largest value: sums overflow
  special,     // normal, with a few NaN, Inf and zeros
  cancelling,  // neighbours undo each other
  chain,       // normal, over four instructions
};
inline constexpr MmaFill kMmaFills[] = {MmaFill::normal, MmaFill::wide,    MmaFill::tiny,
                                        MmaFill::large,  MmaFill::special, MmaFill::cancelling,
                                        MmaFill::chain};

std::string_view name_of(MmaFill fill);

// C + A B for random A [200, k], B [k, 60], row-major, on the InstructionSet in use.
std::vector<float> mma_results(Mma mma, MmaFill fill);

}  // namespace mlacheck
