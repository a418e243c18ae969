#include "cuda/kernels/top_k_plan.h"

#include <algorithm>

#include "cuda/kernels/plan_support.h"
#include "cuda/kernels/top_k_stream.h"

namespace mlacheck::kernels {
namespace {

// A slice has at least so many scores; a row below kLeastSliced is one block's, which takes it
// sooner than two kernels do.
constexpr std::int64_t kLeastSlice = 4096;
constexpr std::int64_t kLeastSliced = 32'768;
// Rows of more are streamed: on an H200 those of 131,072 are ready sooner so, of 32,768 later.
constexpr std::int64_t kMostNotStreamed = 65'536;

std::uint64_t candidates_bytes(const TopKPlan& plan) {
  return std::uint64_t{plan.rows} * plan.slices * TopK::kCapacity * sizeof(Candidate);
}

}  // namespace

std::string refusal(const mlacheck_top_k_problem& p) {
  if (p.rows < 0 || p.rows > kInt32Max) return says("rows", p.rows, "0 ... 2^31 - 1");
  if (p.columns < 0 || p.columns > kInt32Max) return says("columns", p.columns, "0 ... 2^31 - 1");
  if (p.k < 0 || p.k > TopK::kMostSelected)
    return says("k", p.k, "0 ... " + std::to_string(TopK::kMostSelected));
  if (p.score_stride < 0) return says("score_stride", p.score_stride, "at least 0");
  return "";
}

TopKPlan make_plan(const mlacheck_top_k_problem& p, unsigned multiprocessors) {
  TopKPlan plan;
  if (p.rows == 0 || p.k == 0) return plan;
  plan.rows = static_cast<std::uint32_t>(p.rows);
  if (p.columns < kLeastSliced) return plan;
  plan.slices = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      std::min(multiprocessors / p.rows, p.columns / kLeastSlice), 1, TopK::kMostSlices));
  plan.streams_rows = plan.slices == 1 && p.columns > kMostNotStreamed &&
                      p.columns <= TopKStream::kMostLength && p.k <= TopKStream::kMostSelected;
  return plan;
}

std::uint64_t workspace_bytes(const TopKPlan& plan) {
  if (plan.slices == 1) return 0;
  return candidates_bytes(plan) + std::uint64_t{plan.rows} * plan.slices * sizeof(std::uint32_t);
}

TopKArguments make_arguments(const mlacheck_top_k_problem& p, const mlacheck_tensors& t,
                             const TopKPlan& plan, void* workspace) {
  TopKArguments a = {};
  a.scores = t.scores_in;
  a.score_stride = p.score_stride;
  a.row_begin = p.has_row_range != 0 ? t.range_begin : nullptr;
  a.row_end = p.has_row_range != 0 ? t.range_end : nullptr;
  a.columns = static_cast<std::int32_t>(p.columns);
  a.k = static_cast<std::uint32_t>(p.k);
  a.selected = t.selected;
  a.slices = device::Divisor(plan.slices);
  if (plan.slices == 1) return a;
  a.candidates = static_cast<Candidate*>(workspace);
  a.collected =
      reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(workspace) + candidates_bytes(plan));
  return a;
}

}  // namespace mlacheck::kernels
