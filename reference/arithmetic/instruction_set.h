#pragma once

#include <string_view>
#include <vector>

namespace mlacheck {

// What the fast forms of the tensor-core step and of dot_block are compiled for: the same bits from
// each. The best one that this CPU runs is chosen at first use.
enum class InstructionSet { portable, avx2, avx512 };

std::string_view name_of(InstructionSet set);
// Those that this build has and this CPU runs, slowest first.
std::vector<InstructionSet> instruction_sets();
InstructionSet instruction_set();
// For tests and benchmarks; every thread uses it from now on. Throws std::invalid_argument when it
// is not among instruction_sets().
void use_instruction_set(InstructionSet set);

}  // namespace mlacheck
