// The project's kernels as a kernel library (cuda/include/mlacheck_kernel.h): compiled by nvcc for
// GPUs, by the host's compiler for the emulator.

#include <iterator>

#include "cuda/kernels/index_scores_library.h"
#include "cuda/kernels/index_select_library.h"
#include "cuda/kernels/map_slots_library.h"
#include "cuda/kernels/sparse_attention_library.h"
#include "cuda/kernels/top_k_library.h"

namespace {

using namespace mlacheck;
using namespace mlacheck::kernels;

constexpr const mlacheck_kernel* kKernels[] = {
    &kSparseAttentionF16, &kSparseAttentionBf16, &kIndexScoresF16, &kIndexScoresBf16, &kTopK,
    &kIndexSelectF16,     &kIndexSelectBf16,     &kMapSlots};

constexpr mlacheck_library kLibrary = {
    .struct_size = sizeof(mlacheck_library),
    .abi_version = MLACHECK_ABI_VERSION,
    .name = device::kOnDevice ? "mlacheck GPU kernels" : "mlacheck GPU kernels, emulated",
    .version = MLACHECK_VERSION,
    .kernels = kKernels,
    .kernel_count = std::size(kKernels),
    .reserved = 0};

}  // namespace

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(
    std::uint32_t abi_version) {
  return abi_version == MLACHECK_ABI_VERSION ? &kLibrary : nullptr;
}
