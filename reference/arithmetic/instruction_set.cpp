#include "reference/arithmetic/instruction_set.h"

#include <fmt/format.h>

#include <atomic>
#include <stdexcept>

namespace mlacheck {
namespace {

bool runs(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0;
  if (set == InstructionSet::avx512)
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#endif
  return set == InstructionSet::portable;
}

std::atomic<InstructionSet>& chosen() {
  static std::atomic<InstructionSet> set = instruction_sets().back();
  return set;
}

}  // namespace

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "?";
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set :
       {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
    if (runs(set)) sets.push_back(set);
  return sets;
}

InstructionSet instruction_set() { return chosen().load(std::memory_order_relaxed); }

void use_instruction_set(InstructionSet set) {
  if (!runs(set))
    throw std::invalid_argument(
        fmt::format("use_instruction_set: this build or CPU does not have {}", name_of(set)));
  chosen().store(set, std::memory_order_relaxed);
}

}  // namespace mlacheck
