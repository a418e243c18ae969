#include <fmt/format.h>

#include <atomic>
#include <stdexcept>

#include "reference/arithmetic/tensor_core_kernel.h"

namespace mlacheck {
namespace {

struct Variant {
  TensorCoreIsa isa;
  const detail::TensorCoreKernel* kernel;
  bool (*runs)();
};

// Slowest first.
constexpr Variant kVariants[] = {
    {TensorCoreIsa::portable, &detail::kPortableKernel, [] { return true; }},
#if defined(__x86_64__)
    {TensorCoreIsa::avx2, &detail::kAvx2Kernel, [] { return __builtin_cpu_supports("avx2") != 0; }},
    {TensorCoreIsa::avx512, &detail::kAvx512Kernel,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
     }},
#endif
};

std::atomic<const Variant*>& chosen() {
  static std::atomic<const Variant*> variant = [] {
    const Variant* best = kVariants;
    for (const Variant& candidate : kVariants)
      if (candidate.runs()) best = &candidate;
    return best;
  }();
  return variant;
}

}  // namespace

std::string_view name_of(TensorCoreIsa isa) {
  switch (isa) {
    case TensorCoreIsa::portable:
      return "portable";
    case TensorCoreIsa::avx2:
      return "avx2";
    case TensorCoreIsa::avx512:
      return "avx512";
  }
  return "?";
}

std::vector<TensorCoreIsa> tensor_core_isas() {
  std::vector<TensorCoreIsa> isas;
  for (const Variant& variant : kVariants)
    if (variant.runs()) isas.push_back(variant.isa);
  return isas;
}

TensorCoreIsa tensor_core_isa() { return chosen().load(std::memory_order_relaxed)->isa; }

void use_tensor_core_isa(TensorCoreIsa isa) {
  for (const Variant& variant : kVariants)
    if (variant.isa == isa && variant.runs()) {
      chosen().store(&variant, std::memory_order_relaxed);
      return;
    }
  throw std::invalid_argument(
      fmt::format("use_tensor_core_isa: this build or CPU does not have {}", name_of(isa)));
}

namespace detail {

const TensorCoreKernel& tensor_core_kernel() {
  return *chosen().load(std::memory_order_relaxed)->kernel;
}

}  // namespace detail
}  // namespace mlacheck
