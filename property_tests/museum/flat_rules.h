#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cuda/plugin/kernel_library.h"
#include "fixtures/recipe.h"

namespace mlacheck::museum {

// What others accept a kernel by, to stand beside this project's verdicts.
//
//   5e-2        allclose, atol = rtol = 5e-2: FlashInfer's SM120 tests
//   2e-2        the same with 2e-2: cuDNN frontend's
//   cosine      1 - 2 <x, y> / (|x|^2 + |y|^2) <= 1e-3: DeepGEMM's and FlashMLA's calc_diff
//   twice       largest error <= twice that of the same steps in the inputs' 16-bit type:
//               FlashAttention's; of attention alone
//   sorted      selected scores, sorted, allclose with 1e-2: vLLM's and TensorRT-LLM's; of
//               selections alone
//
// Attention: out by all, lse by allclose; against fp64. map_slots is integers: by none.
inline constexpr std::array<std::string_view, 5> kFlatRules = {"5e-2", "2e-2", "cosine 1e-3",
                                                               "twice PyTorch", "sorted 1e-2"};

enum class FlatVerdict : std::uint8_t { not_applicable, passes, catches };
using FlatVerdicts = std::array<FlatVerdict, kFlatRules.size()>;

// Makes the kernel's call on the recipe. All that apply catch one that does not end well.
FlatVerdicts flat_verdicts(const Recipe& recipe, const KernelLibrary& library,
                           const mlacheck_kernel& kernel);

}  // namespace mlacheck::museum
