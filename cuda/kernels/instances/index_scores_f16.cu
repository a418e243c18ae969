#include "cuda/kernels/index_scores_launch_impl.h"

template void mlacheck::kernels::launch_index_scores<mlacheck::device::Element::f16>(
    device::Stream&, const IndexScoresPlan&, const IndexScoresArguments&);
