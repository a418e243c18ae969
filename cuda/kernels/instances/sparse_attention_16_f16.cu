#include "cuda/kernels/sparse_attention_launch_impl.h"

template void mlacheck::kernels::launch_sparse_attention<mlacheck::device::Element::f16, 16>(
    device::Stream&, const SparseAttentionPlan&, const SparseAttentionArguments&);
