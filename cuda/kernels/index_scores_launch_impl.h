#pragma once

#include "cuda/kernels/index_scores.h"
#include "cuda/kernels/index_scores_ahead.h"
#include "cuda/kernels/index_scores_launch.h"

namespace mlacheck::kernels {

template <device::Element E>
void launch_index_scores(device::Stream& stream, const IndexScoresPlan& plan,
                         const IndexScoresArguments& arguments) {
  device::LaunchShape shape;
  shape.blocks = plan.blocks;
  shape.may_start_early = true;
  if (plan.ahead) {
    shape.threads = (plan.warps + 1) * device::kWarpSize;
    shape.shared_bytes = sizeof(IndexAheadShared);
    device::launch(stream, index_scores_ahead<E>, shape, arguments, "index_scores_ahead");
    return;
  }
  shape.threads = IndexScoresBlock::kThreads;
  shape.shared_bytes = sizeof(IndexScoresShared);
  device::launch(stream, index_scores<E>, shape, arguments, "index_scores");
}

}  // namespace mlacheck::kernels
