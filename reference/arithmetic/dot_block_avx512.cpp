// Compiled with -mavx512f -mavx512bw -mavx512dq -mavx512vl.
#include "reference/arithmetic/dot_block_kernel.h"

namespace mlacheck::detail {

void dot_block_avx512(const DotBlock& block) { DotKernel<16, 4, 4>::run(block); }

}  // namespace mlacheck::detail
