#pragma once

#include "cuda/kernels/index_scores.h"
#include "cuda/kernels/index_scores_launch.h"

namespace mlacheck::kernels {

template <device::Element E>
void launch_index_scores(device::Stream& stream, const IndexScoresPlan& plan,
                         const IndexScoresArguments& arguments) {
  device::LaunchShape shape;
  shape.blocks = plan.blocks;
  shape.threads = IndexScoresBlock::kThreads;
  shape.shared_bytes = sizeof(IndexScoresShared);
  shape.may_start_early = true;
  device::launch(stream, index_scores<E>, shape, arguments, "index_scores");
}

}  // namespace mlacheck::kernels
