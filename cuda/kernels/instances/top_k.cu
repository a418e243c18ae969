#include "cuda/kernels/top_k_launch_impl.h"

template void mlacheck::kernels::launch_top_k<mlacheck::kernels::TopKRules>(device::Stream&,
                                                                            const TopKPlan&,
                                                                            const TopKArguments&);
