// Compiled with -mavx2.
#include "reference/arithmetic/dot_block_kernel.h"

namespace mlacheck::detail {

void dot_block_avx2(const DotBlock& block) { DotKernel<8, 1, 4>::run(block); }

}  // namespace mlacheck::detail
