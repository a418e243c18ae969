#pragma once

#include "cuda/device/launch.h"
#include "cuda/kernels/index_scores_launch.h"
#include "cuda/kernels/index_select_plan.h"
#include "cuda/kernels/map_slots_launch.h"
#include "cuda/kernels/top_k_launch.h"

namespace mlacheck::kernels {

// Selected keys of the rows from `first` on, in place, to slots.
inline MapSlotsArguments slots_of(const mlacheck_index_select_problem& p,
                                  const IndexSelectPart& part) {
  MapSlotsArguments a = {};
  a.positions = a.slots = part.selection_tensors.selected;
  a.columns = device::Divisor(static_cast<std::uint32_t>(p.k));
  a.count = static_cast<std::uint32_t>(part.selection.rows * p.k);
  a.block_table = part.scores_tensors.block_table;
  a.stride = a.blocks = p.scores.block_table_stride;
  a.request = p.scores.has_request != 0 ? part.scores_tensors.request : nullptr;
  a.block_size = device::Divisor(static_cast<std::uint32_t>(p.scores.keys.page_size));
  return a;
}

// top_k reads no score outside a row's range, so none is written there.
inline constexpr bool kMasks = false;

// Starts the kernels of the plan, one part of the rows after another.
template <device::Element E>
void launch_index_select(device::Stream& stream, const mlacheck_index_select_problem& p,
                         const mlacheck_tensors& t, const IndexSelectPlan& plan, void* workspace,
                         unsigned multiprocessors) {
  for (std::int64_t first = 0; first < p.scores.tokens && plan.rows > 0; first += plan.rows) {
    const IndexSelectPart part(p, t, plan, workspace, first);
    const IndexScoresPlan scores = make_plan(part.scores, multiprocessors);
    launch_index_scores<E>(stream, scores,
                           make_arguments(part.scores, part.scores_tensors, scores, kMasks));
    const TopKPlan selection = make_plan(part.selection, multiprocessors);
    launch_top_k<TopKRules>(stream, selection,
                            make_arguments(part.selection, part.selection_tensors, selection,
                                           part.selection_workspace));
    if (p.to_slots != 0) launch_map_slots(stream, slots_of(p, part));
  }
}

}  // namespace mlacheck::kernels
