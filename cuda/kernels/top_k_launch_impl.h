#pragma once

#include "cuda/kernels/top_k.h"
#include "cuda/kernels/top_k_launch.h"

namespace mlacheck::kernels {

template <class Rules>
void launch_top_k(device::Stream& stream, const TopKPlan& plan, const TopKArguments& arguments) {
  device::LaunchShape shape;
  shape.blocks = plan.rows;
  shape.threads = TopK::kThreads;
  shape.shared_bytes = sizeof(TopK::Shared);
  shape.may_start_early = true;
  if (plan.streams_rows) {
    shape.shared_bytes = sizeof(TopKStream::Shared);
    device::launch(stream, top_k_long_rows<Rules>, shape, arguments, "top_k_long_rows");
    return;
  }
  if (plan.slices == 1) {
    device::launch(stream, top_k_rows<Rules>, shape, arguments, "top_k_rows");
    return;
  }
  device::LaunchShape slices = shape;
  slices.blocks_y = plan.slices;
  device::launch(stream, top_k_slices<Rules>, slices, arguments, "top_k_slices");
  device::launch(stream, top_k_merge<Rules>, shape, arguments, "top_k_merge");
}

}  // namespace mlacheck::kernels
