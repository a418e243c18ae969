#include "reference/arithmetic/dot_block_kernel.h"
#include "reference/arithmetic/instruction_set.h"

namespace mlacheck {

void dot_block(const DotBlock& block) {
#if defined(__x86_64__)
  const InstructionSet set = instruction_set();
  if (set == InstructionSet::avx512) return detail::dot_block_avx512(block);
  if (set == InstructionSet::avx2) return detail::dot_block_avx2(block);
#endif
  detail::DotKernel<4, 1, 4>::run(block);
}

}  // namespace mlacheck
